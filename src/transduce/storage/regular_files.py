"""Functions that read regular files, and remove files of any kind, without blocking on pipes."""

import shutil
from pathlib import Path

MAX_JSON_BYTES = 2**24
"""The maximum size of a JSON file in bytes.

It is many times larger than the files that a run writes, but small enough to be parsed in less than 1 GB of memory.
"""


def read_regular_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Returns the content of a regular file.

    Raises ValueError if `path` is not a regular file, or if the file is larger than `max_bytes` bytes, and
    FileNotFoundError if there is no file.
    """
    if not path.is_file():
        path.lstat()  # raises FileNotFoundError if nothing has this name
        raise ValueError(f"{path} is not a regular file, but a folder, pipe, device or broken link; restore the file")
    if max_bytes is not None and (size := path.stat().st_size) > max_bytes:
        raise ValueError(f"{path} is damaged: it has {size:,} bytes where at most {max_bytes:,} are expected")
    return path.read_bytes()


def remove(path: Path) -> None:
    """Removes a file, a link, a pipe, or a folder with its contents; does nothing if `path` does not exist.

    Does not wait for pipes. A link itself is removed, but not the file or folder that it points to.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)  # used for folders only, because it opens its argument, and opening a pipe would block
    else:
        path.unlink(missing_ok=True)
