"""A model directory: a whole model, written atomically and read only if every byte is as it was written."""
