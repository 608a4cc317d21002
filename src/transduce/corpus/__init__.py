"""The corpora of a run: readers, checks, the token store, and planning of batches."""
