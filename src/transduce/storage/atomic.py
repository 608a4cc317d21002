"""Atomic writes, which guarantee that a file has either its old or its new content after a crash.

New content is written to a temporary file, which is then renamed. Every such temporary file is a `LockedFile`, which is
locked from its creation until it is closed. If its process is killed, the lock ends with the process. Other processes
can therefore distinguish a temporary file in use from a leftover:

    writer A    creates .a.writing ──────── writes ──────── publishes it as a
    writer B        finds A's lock, creates .a.2.writing ──────── writes ──────── publishes it as a, is killed, or ...
    writer C                                    finds no lock, removes what is left, creates .a.writing

On a file system without locks, a file in use cannot be distinguished from a leftover. A new writer therefore replaces
the temporary file of an earlier writer. When the earlier writer calls `publish`, OSError is raised, because the path no
longer refers to its file.
"""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from transduce.storage import operating_system
from transduce.storage.operating_system import TRIES, flush, lock_if_supported, replace, unstable_identity
from transduce.storage.regular_files import remove

if TYPE_CHECKING:
    from torch import Tensor

MAX_WRITERS = 99
"""The maximum number of processes that can write the same file at the same time."""

UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EPERM)

# Windows has neither flag, and needs neither: its O_EXCL does not follow links, and pipes are not entries of folders.
NO_LINK, NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)


class NotRemovableError(PermissionError):
    """Raised if a file belongs to another user, and the current user is not permitted to remove it.

    This happens, for example, in a folder with the sticky bit.
    """

    def __init__(self, path: Path) -> None:
        try:
            owner = path.owner()
        except (KeyError, OSError, NotImplementedError):  # the owner has no name, the link is broken, or on Windows
            owner = "another user"
        super().__init__(
            f"{path}: the file belongs to {owner}, and you may not remove it; if no command of {owner} is writing it, "
            f"let {owner} or an administrator remove it, or name another file"
        )


class LockedFile:
    """A temporary file that this process has created and locked, and that can be published under another name."""

    def __init__(self, path: Path) -> None:
        """Creates an empty file at `path` and locks it; a leftover or a link at this path is replaced.

        Raises BlockingIOError if another process, or another part of this process, has locked a file at this path.
        Raises NotRemovableError if a leftover cannot be removed, and OSError if the file system has changing inode
        numbers.
        """
        self.path = path
        for _ in range(TRIES):
            if (descriptor := _create(path)) is not None:
                break
            _remove_leftover(path)
        else:
            raise unstable_identity(path)
        self._descriptor: int | None = descriptor
        self._identity: os.stat_result | None = os.fstat(descriptor)  # None once the file has been published

    def open_text(self) -> TextIO:
        """Opens the file for writing text in UTF-8, even if its path refers to a different file by now."""
        descriptor = self._descriptor
        assert descriptor is not None
        return open(self.path, "w", encoding="utf-8", newline="\n", opener=lambda *_: os.dup(descriptor))

    def is_at_path(self) -> bool:
        """Returns True if the path still refers to this file, False if the file was removed, replaced or published."""
        return self._identity is not None and _is_at(self._identity, self.path)

    def publish(self, target: Path, *, flushed: bool = True) -> None:
        """Renames the file to `target` and closes it.

        If `flushed` is True, the file is flushed to disk before it is renamed, and its folder is flushed afterwards.
        Raises OSError if the path no longer refers to this file.
        """
        self.check()
        if flushed:
            flush_to_disk(self.path)
            self.check()
        if operating_system.WINDOWS:
            self.close()  # Windows cannot rename an open file, so no other process has been able to rename it either
        replace(self.path, target)
        self._identity = None
        self.close()
        if flushed:
            flush_to_disk(target.parent)

    def check(self) -> None:
        """Raises OSError if the path no longer refers to this file."""
        if not self.is_at_path():
            raise OSError(
                f"{self.path} was removed or replaced by another program before it was finished; run the command again"
            )

    def close(self) -> None:
        """Closes the file without removing it, which releases the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def discard(self) -> None:
        """Closes the file, and removes it unless it has been published."""
        is_ours = self.is_at_path()
        if operating_system.WINDOWS:
            self.close()  # Windows cannot remove an open file
        if is_ours:
            self.path.unlink(missing_ok=True)
        self.close()


def _create(path: Path) -> int | None:
    """Creates and locks a file, and returns its file descriptor, or None if the path is already taken."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK, 0o666)
    except FileExistsError:
        return None
    with contextlib.suppress(BlockingIOError):  # another process has locked the file first, mistaking it for a leftover
        lock_if_supported(descriptor)
        if _is_at(os.fstat(descriptor), path):
            return descriptor
    os.close(descriptor)
    return None


def _remove_leftover(path: Path) -> None:
    """Removes a file that an earlier process has left at `path`, so that a new file can be created there.

    Raises BlockingIOError if another process has locked the file, and NotRemovableError if the current user is not
    permitted to open or remove it.
    """
    if operating_system.WINDOWS:
        try:
            path.unlink(missing_ok=True)
        except PermissionError as error:  # another process has opened the file
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path)) from error
        return
    try:
        try:
            descriptor = open_locked(path)
        except FileNotFoundError:
            return
        except (BlockingIOError, PermissionError):
            raise
        except OSError:  # it is a link, or it is a folder, for which `unlink` raises an error
            path.unlink(missing_ok=True)
            return
        try:
            path.unlink(missing_ok=True)  # removed while it is locked, so that no newer file is removed instead
        finally:
            os.close(descriptor)
    except PermissionError:
        raise NotRemovableError(path) from None


def open_locked(path: Path) -> int:
    """Opens and locks an existing file, and returns its file descriptor.

    Does not follow links or wait for pipes. Raises BlockingIOError if the file is already locked, and FileNotFoundError
    if it does not exist or its previous owner has just removed it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | NO_LINK | NO_WAIT)  # NFS cannot lock a file that is open read-only
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | NO_LINK | NO_WAIT)
    try:
        lock_if_supported(descriptor)
        if not _is_at(os.fstat(descriptor), path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_at(identity: os.stat_result, path: Path) -> bool:
    """Returns True if `path` refers to the file with this identity directly, and not through a link."""
    try:
        return os.path.samestat(identity, path.lstat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def temporary_file(path: Path) -> Iterator[LockedFile]:
    """Yields a new temporary file next to `path`, which is removed at the end of the context unless it was published.

    Raises OSError if `MAX_WRITERS` temporary files for `path` are already in use.
    """
    for number in range(1, MAX_WRITERS + 1):
        with contextlib.suppress(BlockingIOError, NotRemovableError):
            file = LockedFile(unfinished_path(path, number))
            break
    else:
        raise OSError(
            f"{path}: {MAX_WRITERS} temporary files beside it, from {unfinished_path(path).name} to "
            f"{unfinished_path(path, MAX_WRITERS).name}, are in use; wait for the other commands to end, or remove them"
        )
    try:
        yield file
    finally:
        file.discard()  # also after an error, because a leftover would continue to fill a disk that is full


def unfinished_path(path: Path, number: int = 1) -> Path:
    """Returns the path of the temporary file for `path`.

    If several processes write `path` at the same time, `number` distinguishes their temporary files.
    """
    return path.with_name(f".{path.name}.writing" if number == 1 else f".{path.name}.{number}.writing")


def atomic_write(path: Path, write: Callable[[Path], object], *, flushed: bool = True) -> None:
    """Creates or replaces the file `path` atomically.

    Calls `write` with the path of a temporary file next to `path`, flushes that file to disk, and renames it to `path`.
    If an error occurs, the temporary file is removed and the error is raised. If several processes write `path` at the
    same time, the last one to finish wins. If `flushed` is False, the file is not flushed, and may be lost in a power
    failure.
    """
    with temporary_file(path) as file:
        write(file.path)
        file.publish(path, flushed=flushed)


def atomic_write_text(path: Path, text: str, *, flushed: bool = True) -> None:
    """Writes a text file atomically, encoded in UTF-8."""
    atomic_write(path, lambda temporary: temporary.write_text(text, "utf-8", newline="\n"), flushed=flushed)


def write_tensors(tensors: Mapping[str, "Tensor"], path: Path) -> None:
    """Writes tensors atomically to a file in the safetensors format; raises OSError if it cannot be written."""
    # Imported here because safetensors imports torch, which takes seconds, and most files contain no tensors.
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with temporary_file(path) as file:
        # The library creates temporary files of its own. They go to a separate folder, so that the next writer can
        # remove any that a killed process has left behind.
        folder = file.path.with_name(f"{file.path.name}.tensors")
        remove(folder)
        folder.mkdir()
        try:
            written = folder / path.name
            save_file(dict(tensors), written)
            with best_effort():
                written.chmod(file.path.stat().st_mode)  # the library creates files that only their owner can read
            flush_to_disk(written)
            file.check()
            replace(written, path)
        except SafetensorError as error:
            if "No space left" in str(error):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
            raise OSError(f"{path}: {str(error).removeprefix('Error while serializing: ')}") from None
        finally:
            remove(folder)
        flush_to_disk(path.parent)


def flush_to_disk(path: Path) -> None:
    """Flushes the content of a file, or the entries of a folder, to disk, and waits until they have been written.

    Does nothing if the file system does not support this; a power failure may then lose the new content.
    """
    with best_effort():
        flush(path)


@contextlib.contextmanager
def best_effort() -> Iterator[None]:
    """Ignores errors within the context that mean that the file system does not support fsync or chmod.

    FAT, CIFS and some FUSE file systems cannot flush folders, and give the same mode to all files. The written files
    are complete nevertheless. All other errors are raised, for example EIO if the disk fails.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
