"""Checks of parallel text: pairs of lines in, the faults of each pair out; reads no files."""
