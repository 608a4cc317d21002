"""Checks of parallel text: takes pairs of lines, and returns the faults of each pair; reads no files."""
