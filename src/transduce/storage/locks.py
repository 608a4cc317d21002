"""Having a folder to oneself: one training in a run, one fetch in a folder of data; or each process in its turn."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["LockHeldError", "exclusive_lock", "wait_for_lock"]


class LockHeldError(ValueError):
    """Another process is at work in a folder."""


@contextlib.contextmanager
def exclusive_lock(folder: Path, work: str) -> Iterator[None]:
    """Keeps every other `work` of this machine out of `folder`, which is made if need be; `LockHeldError` if one is in.

    The system lets go when a process dies. A network's file system does not tell other machines.
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
    """Lets the processes of this machine that want to work in `folder`, which is there, do so one after the other."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
