"""Writes the result files that users specify, which may be regular files, links, pipes or devices."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from transduce.storage.atomic import atomic_write, best_effort


@contextlib.contextmanager
def name_in_errors(path: Path | str) -> Iterator[None]:
    """Adds the file name `path` to any OSError within the context that has none."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def is_replaceable(path: Path) -> bool:
    """Returns True if `path` is a regular file or does not exist, and its folder is writable."""
    return os.access(path.resolve().parent, os.W_OK) and (path.is_file() or not path.exists())


def may_replace(path: Path) -> bool:
    """Returns True if the current user is permitted to remove or replace an existing file.

    In a folder with the sticky bit, this is limited to the owner of the file, the owner of the folder, and root.
    """
    file, folder = path.lstat(), path.parent.stat()
    return not folder.st_mode & stat.S_ISVTX or os.geteuid() in (0, file.st_uid, folder.st_uid)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Creates or replaces the file `path` atomically with the content that `write` writes.

    The new file has the permissions of the file that it replaces. If `path` is a link, the file to which it points is
    replaced. Pipes, devices and files in folders that are not writable are written directly.
    """

    def write_with_permissions(temporary: Path) -> None:
        write(temporary)
        copy_mode(path, temporary)

    with name_in_errors(path):
        if is_replaceable(path):
            atomic_write(path.resolve(), write_with_permissions)
        else:
            write(path)


def copy_mode(path: Path, replacement: Path) -> None:
    """Gives `replacement` the permissions of `path`, if both exist and the file system supports permissions."""
    if path.exists():
        with best_effort(), contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, replacement)
