"""Files that survive: written aside, flushed to the disk, and renamed into place."""

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["flush", "replace", "write_text"]


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` fill a file beside `path`, sees it onto the disk, and puts it in `path`'s place."""
    aside = path.with_name(f".{path.name}.writing")
    write(aside)
    flush(aside)
    aside.replace(path)
    flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Writes a small file so that it is there whole, or as it was before."""
    replace(path, lambda aside: aside.write_text(text, "utf-8"))


def flush(path: Path) -> None:
    """Returns when the content of a file or folder has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
