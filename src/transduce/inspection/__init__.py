"""Checks for faults in parallel text. The checks take pairs of lines and do not read files."""
