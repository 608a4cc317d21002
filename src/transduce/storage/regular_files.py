"""Reads and removes regular files, without waiting for pipes or following links."""

import shutil
from pathlib import Path

MAX_JSON_BYTES = 2**24
"""Largest size of a JSON file in bytes: many times larger than a run writes, but parsed in less than 1 GB of memory."""


def read_regular_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Reads a regular file; raises ValueError if `path` is not a regular file or has more than `max_bytes` bytes."""
    if not path.is_file():
        path.lstat()  # raises FileNotFoundError if nothing has this name
        raise ValueError(f"{path} is not a regular file, but a folder, pipe, device or broken link; restore the file")
    if max_bytes is not None and (size := path.stat().st_size) > max_bytes:
        raise ValueError(f"{path} is damaged: it has {size:,} bytes where at most {max_bytes:,} are expected")
    return path.read_bytes()


def remove(path: Path) -> None:
    """Removes a folder and its contents, or a file, link or pipe; does not wait for pipes or follow links."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)  # only for folders: it opens its argument, and opening a pipe waits for a writer
    else:
        path.unlink(missing_ok=True)
