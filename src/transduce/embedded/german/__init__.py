"""German: abstract sentences as words in the order of the German clause."""
