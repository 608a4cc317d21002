"""Files that survive: written aside, flushed to the disk, and renamed into place."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["atomic_write", "atomic_write_text", "flush_to_disk", "write_tensors"]


def atomic_write(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` fill a file beside `path`, sees it onto the disk, and puts it in `path`'s place."""
    aside = path.with_name(f".{path.name}.writing")
    try:
        write(aside)
        flush_to_disk(aside)
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)  # it would keep a full disk full
        raise
    flush_to_disk(path.parent)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes a small file so that it is there whole, or as it was before."""
    atomic_write(path, lambda aside: aside.write_text(text, "utf-8"))


def write_tensors(tensors: Mapping[str, "Tensor"], path: Path) -> None:
    """Fills a file with tensors; an `OSError` where the disk refuses, for which the library has an error of its own."""
    # Imported where it is used: it brings torch, which takes seconds, and most files hold no tensors.
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(dict(tensors), path)
        path.chmod(mode)  # the library makes files that only their owner may read
    except SafetensorError as error:
        raise OSError(f"{path}: {str(error).removeprefix('Error while serializing: ')}") from None


def flush_to_disk(path: Path) -> None:
    """Returns when the content of a file or folder has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
