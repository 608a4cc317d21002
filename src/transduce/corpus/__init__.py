"""This package reads and checks the corpora of a run, stores their tokens on disk, and plans the training batches."""
