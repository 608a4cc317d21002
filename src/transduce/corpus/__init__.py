"""The corpora of a training: readers, checks, the token store, and the planning of batches."""
