"""This package provides crash-safe access to files: atomic writes, checksums and locks."""
