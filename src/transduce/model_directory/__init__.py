"""A model directory: a whole model, written atomically and read only when every byte is as it was written."""
