"""Locks on folders and output files, which exclude other processes on the same machine.

`exclusive_lock` and `wait_for_lock` refuse to use a folder on a file system that does not support locks. Otherwise two
runs could write to the same folder, and the damage might be noticed only hours later.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from transduce.storage.atomic import LockedFile, NotRemovableError, open_locked
from transduce.storage.operating_system import NO_LOCKS, TRIES, lock
from transduce.storage.result_files import is_replaceable


class LockHeldError(ValueError):
    """Raised if another process holds the lock on a folder or an output file."""


class FolderMovedError(ValueError):
    """Raised if a folder was moved, replaced or removed while a command writes to it."""


class FolderIdentity:
    """The identity of an existing folder. A lock on a folder stays with it if it is moved, but paths do not."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._identity = folder, folder.stat()

    def check(self, work: str) -> None:
        """Raises FolderMovedError if the path no longer leads to this folder; `work` is what the command does."""
        try:
            is_here = os.path.samestat(self.folder.stat(), self._identity)
        except (FileNotFoundError, NotADirectoryError):
            is_here = False
        except OSError:  # for example a network file system that does not answer; the writes have their own errors
            return
        if not is_here:
            raise FolderMovedError(
                f"{self.folder} was moved, replaced or removed during the {work}, which ends here; if it was moved, "
                "the same command resumes with the new path"
            )


@contextlib.contextmanager
def exclusive_lock(folder: Path, work: str) -> Iterator[None]:
    """Locks `folder` within the context, and creates it if necessary.

    Raises LockHeldError if another process has locked the folder. The message calls that process "another `work`", for
    example "another training". Raises ValueError if `folder` is a file, or if its file system does not support locks,
    and OSError if the file system has changing inode numbers.

    If a process dies, the operating system releases its lock. On a network file system, the lock may not be visible to
    other machines.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a new directory")
    for tries_left in range(TRIES, 0, -1):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = _lock(folder, wait=False)
            break
        except FileNotFoundError:  # the previous owner of the lock has just removed or renamed the folder
            if tries_left == 1:
                raise
        except BlockingIOError:
            raise LockHeldError(
                f"another {work} is at work in {folder}; wait for its end, or choose another folder"
            ) from None
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def output_lock(path: Path) -> Iterator[None]:
    """Locks the output file `path` within the context, so that nobody else writes to it.

    The lock is held on a separate file next to `path` or, if the folder is not writable, on the output file itself.
    Pipes and devices are not locked. If the file system does not support locks, there is no lock; if several commands
    then write to `path`, the output of the last one to finish remains.

    Raises LockHeldError if another process, or this process itself, is already writing to `path`. Raises
    NotRemovableError if the lock file belongs to another user and can be neither removed nor opened.
    """
    target = path.resolve()
    with contextlib.ExitStack() as stack:
        with name_second_writer(path):
            if is_replaceable(path):
                lock_path = target.with_name(f".{target.name}.writing.lock")
                try:
                    stack.callback(LockedFile(lock_path).discard)
                except NotRemovableError as error:
                    try:  # a user who may not remove the lock file of another user may still be able to lock it
                        stack.callback(os.close, open_locked(lock_path))
                    except BlockingIOError:
                        raise
                    except OSError:  # the lock file cannot be opened, or is a link
                        raise error from None
            elif path.is_file():  # the folder is not writable, so the output file itself is overwritten and locked
                stack.callback(os.close, open_locked(target))
        yield


@contextlib.contextmanager
def name_second_writer(path: Path) -> Iterator[None]:
    """Converts a BlockingIOError within the context to a LockHeldError with a message about the output file `path`."""
    try:
        yield
    except BlockingIOError:
        raise LockHeldError(
            f"{path}: it is already being written; wait for the other command to end, or name another file"
        ) from None


@contextlib.contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Locks an existing folder within the context.

    If another process on this machine has locked the folder, waits until that lock is released. Raises ValueError if
    the file system does not support locks.
    """
    descriptor = _lock(folder, wait=True)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path, *, wait: bool) -> int:
    """Locks a folder, and returns a file descriptor that holds the lock until it is closed.

    Raises ValueError if the file system does not support locks.
    """
    try:
        return lock(folder, wait=wait)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise ValueError(
            f"{folder}: this file system has no locks (flock: {error.strerror}), and two commands could write there at "
            "once; choose a folder on a local disk, or mount the file system with locks"
        ) from None
