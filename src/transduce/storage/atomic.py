"""Atomic writes: after a crash, a file has either its old content or its new content.

Each temporary file of the project is a `LockedFile`. It is locked from its creation until it is closed, so that other
processes can distinguish it from the leftover of a killed process, whose lock ended with the process:

    writer A    creates .a.writing ──────── writes ──────── publishes it as a
    writer B        finds A's lock, creates .a.2.writing ──────── writes ──────── publishes it as a, is killed, or ...
    writer C                                    finds no lock, removes what is left, creates .a.writing

On a file system without locks, the two cannot be told apart. There the newer writer takes the name, and `publish`
raises OSError for the older writer, because the path no longer names its file.
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
"""Largest number of processes that may write one file at the same time."""

UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EPERM)

# Windows has neither flag: there O_EXCL does not follow links either, and no pipe has a name in a folder.
NO_LINK, NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)


class NotRemovableError(PermissionError):
    """A file that belongs to another user and that this user may not remove, for example in a folder with the sticky
    bit.
    """

    def __init__(self, path: Path) -> None:
        try:
            owner = path.owner()
        except (KeyError, OSError, NotImplementedError):  # without a name, a broken link, Windows
            owner = "another user"
        super().__init__(
            f"{path}: the file belongs to {owner}, and you may not remove it; if no command of {owner} is writing it, "
            f"let {owner} or an administrator remove it, or name another file"
        )


class LockedFile:
    """A new, empty file that this process has locked; only this file is ever published."""

    def __init__(self, path: Path) -> None:
        """Creates the file in place of a leftover or a link, which is not followed.

        Raises BlockingIOError if another process, or another part of this one, has locked a file of this name,
        NotRemovableError if a leftover cannot be removed, and OSError if the inode numbers of the file system change.
        """
        self.path = path
        for _ in range(TRIES):
            if (descriptor := _create(path)) is not None:
                break
            _remove_leftover(path)
        else:
            raise unstable_identity(path)
        self._descriptor: int | None = descriptor
        self._identity: os.stat_result | None = os.fstat(descriptor)  # None after it is published

    def open_text(self) -> TextIO:
        """Opens this file to write text in UTF-8, even if its path names another file by now."""
        descriptor = self._descriptor
        assert descriptor is not None
        return open(self.path, "w", encoding="utf-8", newline="\n", opener=lambda *_: os.dup(descriptor))

    def is_at_path(self) -> bool:
        """Whether the path still names this file, rather than another file or nothing."""
        return self._identity is not None and _is_at(self._identity, self.path)

    def publish(self, target: Path, *, flushed: bool = True) -> None:
        """Renames the file to `target` and closes it; if `flushed`, its content reaches the disk first.

        Raises OSError if the path no longer names this file.
        """
        self.check()
        if flushed:
            flush_to_disk(self.path)
            self.check()
        if operating_system.WINDOWS:
            self.close()  # Windows cannot rename an open file; until here nobody else could rename it either
        replace(self.path, target)
        self._identity = None
        self.close()
        if flushed:
            flush_to_disk(target.parent)

    def check(self) -> None:
        """Raises OSError if the path no longer names this file."""
        if not self.is_at_path():
            raise OSError(
                f"{self.path} was removed or replaced by another program before it was finished; run the command again"
            )

    def close(self) -> None:
        """Closes the file, which unlocks it; nothing is removed."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def discard(self) -> None:
        """Closes the file, and removes it if it was not published."""
        is_ours = self.is_at_path()
        if operating_system.WINDOWS:
            self.close()  # Windows cannot remove an open file
        if is_ours:
            self.path.unlink(missing_ok=True)
        self.close()


def _create(path: Path) -> int | None:
    """Creates and locks a file; returns its descriptor, or None if the name is taken."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK, 0o666)
    except FileExistsError:
        return None
    with contextlib.suppress(BlockingIOError):  # before it was locked, another process took it for a leftover
        lock_if_supported(descriptor)
        if _is_at(os.fstat(descriptor), path):
            return descriptor
    os.close(descriptor)
    return None


def _remove_leftover(path: Path) -> None:
    """Removes what an earlier process left at `path`, so that a new locked file can be created there.

    Raises BlockingIOError if another process has locked the old file, and NotRemovableError if this user may not open
    or remove it.
    """
    if operating_system.WINDOWS:
        try:
            path.unlink(missing_ok=True)
        except PermissionError as error:  # it is open
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path)) from error
        return
    try:
        try:
            descriptor = open_locked(path)
        except FileNotFoundError:
            return
        except (BlockingIOError, PermissionError):
            raise
        except OSError:  # a link, or a folder, for which `unlink` raises another error
            path.unlink(missing_ok=True)
            return
        try:
            path.unlink(missing_ok=True)  # while it is locked, so that it cannot be a newer file
        finally:
            os.close(descriptor)
    except PermissionError:
        raise NotRemovableError(path) from None


def open_locked(path: Path) -> int:
    """Opens and locks an existing file, and returns its descriptor; does not follow links or wait for pipes.

    Raises BlockingIOError if the file is locked, and FileNotFoundError if its last owner has just removed it.
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
    """Whether `path` names this file itself, not a link to it."""
    try:
        return os.path.samestat(identity, path.lstat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def temporary_file(path: Path) -> Iterator[LockedFile]:
    """Yields a new file next to `path`; removes it at the end unless it was published."""
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
        file.discard()  # a leftover would keep a full disk full


def unfinished_path(path: Path, number: int = 1) -> Path:
    """Path of the temporary file of the n-th process that writes `path` at the same time."""
    return path.with_name(f".{path.name}.writing" if number == 1 else f".{path.name}.{number}.writing")


def atomic_write(path: Path, write: Callable[[Path], object], *, flushed: bool = True) -> None:
    """Replaces `path` atomically: calls `write` with a temporary path next to it, flushes that file and renames it.

    Removes the temporary file if anything fails, and raises the error. If several processes write, the last one wins.
    Without `flushed` a power cut may lose the file.
    """
    with temporary_file(path) as file:
        write(file.path)
        file.publish(path, flushed=flushed)


def atomic_write_text(path: Path, text: str, *, flushed: bool = True) -> None:
    """Writes a text file in UTF-8 atomically."""
    atomic_write(path, lambda temporary: temporary.write_text(text, "utf-8", newline="\n"), flushed=flushed)


def write_tensors(tensors: Mapping[str, "Tensor"], path: Path) -> None:
    """Writes tensors in the safetensors format atomically; raises OSError if the disk fails."""
    # Imported here because it imports torch, which takes seconds; most files hold no tensors.
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with temporary_file(path) as file:
        # The library makes temporary files of its own. They are made in this folder, because the next writer removes
        # what a killed process has left there.
        folder = file.path.with_name(f"{file.path.name}.tensors")
        remove(folder)
        folder.mkdir()
        try:
            written = folder / path.name
            save_file(dict(tensors), written)
            with best_effort():
                written.chmod(file.path.stat().st_mode)  # the library creates files that only their owner may read
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
    """Returns when the content of a file, or the entries of a folder, have reached the disk.

    If the file system cannot flush, returns immediately; only a power cut could then lose the new content.
    """
    with best_effort():
        flush(path)


@contextlib.contextmanager
def best_effort() -> Iterator[None]:
    """Ignores errors of a file system that does not support fsync or chmod; raises all other errors.

    FAT, CIFS and some FUSE file systems cannot flush folders and give all files one mode. What was written is complete
    without either. Errors of the disk, for example EIO, are raised.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
