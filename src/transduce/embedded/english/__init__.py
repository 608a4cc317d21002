"""English: a function named after a constituent realises a node of the abstract sentence as a Penn-style tree."""
