"""Locks on folders and on names of output files, between the processes on one machine.

A folder on a file system without locks is refused before any work. Without the lock, two runs could write one folder,
and the damage would only show hours later.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from transduce.storage.atomic import LockedFile, NotRemovableError, open_locked
from transduce.storage.operating_system import NO_LOCKS, TRIES, lock
from transduce.storage.result_files import is_replaceable


class LockHeldError(ValueError):
    """Another process holds the lock of a folder or of an output file."""


@contextlib.contextmanager
def exclusive_lock(folder: Path, work: str) -> Iterator[None]:
    """Locks `folder`, which is created if necessary; raises LockHeldError if another process has locked it.

    Raises ValueError if the folder is a file or its file system has no locks, and OSError if its inode numbers change.
    `work` names the work of the other process in the message, for example "training". The operating system releases the
    lock of a process that dies. On a network file system other machines may not see the lock.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a new directory")
    for tries_left in range(TRIES, 0, -1):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = _lock(folder, wait=False)
            break
        except FileNotFoundError:  # its last owner has just removed or renamed it
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
    """Locks the name of an output file; raises LockHeldError if this process or another one has locked it.

    The lock is on a file next to `path`. Pipes and devices have no lock. A file system without locks is accepted: there
    the writer that finishes last replaces the output of the other writer. Raises NotRemovableError if the name of the
    lock belongs to another user's file that cannot be opened.
    """
    target = path.resolve()
    with contextlib.ExitStack() as stack:
        with name_second_writer(path):
            if is_replaceable(path):
                lock_path = target.with_name(f".{target.name}.writing.lock")
                try:
                    stack.callback(LockedFile(lock_path).discard)
                except NotRemovableError as error:
                    try:  # a user who may not remove what another user's killed command has left may still lock it
                        stack.callback(os.close, open_locked(lock_path))
                    except BlockingIOError:
                        raise
                    except OSError:  # it cannot be opened, or is a link
                        raise error from None
            elif path.is_file():  # the folder is not writable, so the file itself is written
                stack.callback(os.close, open_locked(target))
        yield


@contextlib.contextmanager
def name_second_writer(path: Path) -> Iterator[None]:
    """Turns the BlockingIOError of a lock into a LockHeldError that names the output file `path`."""
    try:
        yield
    except BlockingIOError:
        raise LockHeldError(
            f"{path}: it is already being written; wait for the other command to end, or name another file"
        ) from None


@contextlib.contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Locks an existing folder; waits while another process of this machine holds the lock.

    Raises ValueError if the file system has no locks.
    """
    descriptor = _lock(folder, wait=True)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path, *, wait: bool) -> int:
    """Locks a folder; returns the descriptor, which holds the lock until it is closed."""
    try:
        return lock(folder, wait=wait)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise ValueError(
            f"{folder}: this file system has no locks (flock: {error.strerror}), and two commands could write there at "
            "once; choose a folder on a local disk, or mount the file system with locks"
        ) from None
