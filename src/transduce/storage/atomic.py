"""Atomic writes: a crash leaves the old content of a file or the new one."""

import contextlib
import errno
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.storage.operating_system import flush, replace
from transduce.storage.regular_files import create_file

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["atomic_write", "atomic_write_text", "best_effort", "flush_to_disk", "unfinished_path", "write_tensors"]

UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EPERM)


def atomic_write(path: Path, write: Callable[[Path], object]) -> None:
    """Replaces `path` atomically: calls `write` with a temporary path beside it, flushes that file and renames it.

    Removes the temporary file where anything fails, and raises the error. A file or a link that has the temporary name
    is removed first.
    """
    temporary = unfinished_path(path)
    create_file(temporary)
    try:
        write(temporary)
        flush_to_disk(temporary)
        replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # it would keep a full disk full
        raise
    flush_to_disk(path.parent)


def unfinished_path(path: Path) -> Path:
    """Returns the temporary path from which `atomic_write` renames a file to `path`."""
    return path.with_name(f".{path.name}.writing")


def atomic_write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8 atomically."""
    atomic_write(path, lambda temporary: temporary.write_text(text, "utf-8", newline="\n"))


def write_tensors(tensors: Mapping[str, "Tensor"], path: Path) -> None:
    """Writes tensors in the safetensors format, not atomically; raises OSError where the disk fails."""
    # Imported here because it imports torch, which takes seconds; most files hold no tensors.
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    create_file(path)
    mode = path.stat().st_mode
    try:
        save_file(dict(tensors), path)
        with best_effort():
            path.chmod(mode)  # the library makes files that only their owner may read
    except SafetensorError as error:
        raise OSError(f"{path}: {str(error).removeprefix('Error while serializing: ')}") from None


def flush_to_disk(path: Path) -> None:
    """Returns when the content of a file, or the entries of a folder, have reached the disk.

    Where the file system cannot flush, it returns at once: only a power cut could then lose what was written.
    """
    with best_effort():
        flush(path)


@contextlib.contextmanager
def best_effort() -> Iterator[None]:
    """Passes over the errors of a file system that does not support fsync or chmod; raises all others.

    FAT, CIFS and some FUSE file systems flush no folders and give all files one mode. What was written is complete
    without either. An error of the disk, such as EIO, is raised.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
