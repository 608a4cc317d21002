"""Files that survive a crash: atomic writes, checksums and locks."""
