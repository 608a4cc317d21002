"""Result files that a user names, which may be files, links, pipes or devices; errors name the file."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from transduce.storage.atomic import atomic_write, best_effort


@contextlib.contextmanager
def name_in_errors(path: Path | str) -> Iterator[None]:
    """Adds `path` to an OSError without a file name that is raised within the context."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def is_replaceable(path: Path) -> bool:
    """Whether `path` is a file or a new name, and its folder is writable."""
    return os.access(path.resolve().parent, os.W_OK) and (path.is_file() or not path.exists())


def may_replace(path: Path) -> bool:
    """Whether this user may remove or replace an existing file: in a folder with the sticky bit, few users may."""
    file, folder = path.lstat(), path.parent.stat()
    return not folder.st_mode & stat.S_ISVTX or os.geteuid() in (0, file.st_uid, folder.st_uid)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Writes `path` atomically, with the permissions of the file that it replaces; a link stays a link.

    Pipes, devices and files in folders that are not writable are written to directly.
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
    """Gives `replacement` the permissions of `path`, if both files exist and the file system can."""
    if path.exists():
        with best_effort(), contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, replacement)
