"""Atomic writes: a crash leaves the old content of a file or the new one."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["atomic_write", "atomic_write_text", "flush_to_disk", "write_tensors"]


def atomic_write(path: Path, write: Callable[[Path], object]) -> None:
    """Replaces `path` atomically: calls `write` with a temporary path beside it, flushes that file and renames it.

    Removes the temporary file where anything fails, and raises the error.
    """
    temporary = path.with_name(f".{path.name}.writing")
    try:
        write(temporary)
        flush_to_disk(temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # it would keep a full disk full
        raise
    flush_to_disk(path.parent)


def atomic_write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8 atomically."""
    atomic_write(path, lambda temporary: temporary.write_text(text, "utf-8"))


def write_tensors(tensors: Mapping[str, "Tensor"], path: Path) -> None:
    """Writes tensors in the safetensors format, not atomically; raises OSError where the disk fails."""
    # Imported here because it imports torch, which takes seconds; most files hold no tensors.
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
    """Returns when the content of a file, or the entries of a folder, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
