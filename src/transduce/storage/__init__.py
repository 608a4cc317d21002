"""Files that survive a crash: atomic writes, checksums, locks, and migrations of files of earlier versions."""
