"""Zip files without compression, as torch and NumPy write them: what is read is never larger than the file."""

import zipfile
from pathlib import Path

__all__ = ["check_entries", "require_file"]


def require_file(path: Path) -> None:
    """Raises ValueError where `path` is no regular file; to open a pipe would wait for its writer."""
    if not path.is_file():
        raise ValueError(f"{path} is no file")


def check_entries(archive: zipfile.ZipFile, path: Path) -> None:
    """Raises ValueError for compressed entries, and for entries that claim more bytes than the file has."""
    entries, size = archive.infolist(), path.stat().st_size
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{path} has the compressed entry {entry.filename!a}; save it again without compression")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError(f"{path} is damaged: its entries claim more than its {size:,} bytes")
