"""Locks on folders between the processes of one machine."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["LockHeldError", "exclusive_lock", "wait_for_lock"]


class LockHeldError(ValueError):
    """Another process holds the lock of a folder."""


@contextlib.contextmanager
def exclusive_lock(folder: Path, work: str) -> Iterator[None]:
    """Locks `folder`, which is created if necessary; raises LockHeldError where another process has locked it.

    `work` says in the message what the other process does, such as "training". The operating system releases the lock
    of a process that dies. On a network file system other machines may not see the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise LockHeldError(
            f"another {work} is at work in {folder}; wait for its end, or choose another folder"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Locks an existing folder; waits while another process of this machine holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
