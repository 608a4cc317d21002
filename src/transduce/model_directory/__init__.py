"""A model directory: a whole model, written atomically and read only if every file matches its checksum."""
