"""Locks on folders between the processes of one machine.

A file system without locks is refused. Without the lock, two trainings could write one folder, and the damage would
show hours later; the refusal comes before any work.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from transduce.storage.operating_system import lock

__all__ = ["LockHeldError", "exclusive_lock", "wait_for_lock"]

UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


class LockHeldError(ValueError):
    """Another process holds the lock of a folder."""


@contextlib.contextmanager
def exclusive_lock(folder: Path, work: str) -> Iterator[None]:
    """Locks `folder`, which is created if necessary; raises LockHeldError where another process has locked it.

    Raises ValueError where the file system has no locks.
    `work` says in the message what the other process does, such as "training". The operating system releases the lock
    of a process that dies. On a network file system other machines may not see the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = _lock(folder, wait=False)
    except BlockingIOError:
        raise LockHeldError(
            f"another {work} is at work in {folder}; wait for its end, or choose another folder"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Locks an existing folder; waits while another process of this machine holds the lock.

    Raises ValueError where the file system has no locks.
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
        if error.errno not in UNSUPPORTED:
            raise
        raise ValueError(
            f"{folder}: this file system has no locks (flock: {error.strerror}), and two commands could write there at "
            "once; choose a folder on a local disk, or mount the file system with locks"
        ) from None
