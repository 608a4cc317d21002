"""The corpora of a run: readers, checks, the token store, and the planning of batches."""
