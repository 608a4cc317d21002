"""Locks, flushes and renames files in the ways that different operating systems require."""

import errno
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

WINDOWS, MACOS = os.name == "nt", sys.platform == "darwin"

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""Error numbers that mean that a file system does not support locks."""

HELD = (errno.EACCES, errno.EDEADLK)  # error numbers on Windows that mean that another process holds the lock
WAIT = 0.1  # seconds between two attempts
RENAME_TRIES = 50  # number of attempts to rename a file on Windows

TRIES = 100
"""The number of attempts to lock a file or folder.

An attempt fails only if another process has just removed or renamed the file or folder.
"""


def lock(folder: Path, *, wait: bool) -> int:
    """Locks `folder`, and returns a file descriptor that holds the lock until it is closed or the process ends.

    If another process holds the lock, waits for it if `wait` is True, and raises BlockingIOError otherwise. Raises
    another OSError if the file system does not support locks.

    Windows cannot lock folders. There, a file next to the folder is locked instead, and is not removed afterwards.
    """
    if not WINDOWS:
        return _lock_posix(folder, wait=wait)
    path = folder.resolve()
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    locking: Any = importlib.import_module("msvcrt")
    while True:
        try:
            locking.locking(descriptor, locking.LK_NBLCK, 1)
            return descriptor
        except OSError as error:
            if not wait or error.errno not in HELD:
                os.close(descriptor)
                if error.errno not in HELD:
                    raise
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path)) from None
        time.sleep(WAIT)  # the flag LK_LOCK would wait for no more than ten seconds


def _lock_posix(folder: Path, *, wait: bool) -> int:
    """Locks `folder`, and tries again if another process has meanwhile replaced it with a new folder."""
    fcntl: Any = importlib.import_module("fcntl")
    for _ in range(TRIES):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(os.fstat(descriptor), folder.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise unstable_identity(folder)


def unstable_identity(path: Path) -> OSError:
    """Returns the exception for a file system with changing inode numbers.

    On some FUSE file systems, the inode number of an open file differs from the inode number of the same file's path.
    """
    return OSError(
        f"{path}: this file system has changing inode numbers, so that no lock can be checked; choose a folder on a "
        "local disk, or mount the file system with inode numbers that stay"
    )


def lock_if_supported(descriptor: int) -> None:
    """Locks an open file until it is closed; raises BlockingIOError if it is already locked.

    Does nothing if the file system does not support locks. Does nothing on Windows either, where no lock is needed,
    because other processes cannot remove or rename an open file.
    """
    if WINDOWS:
        return
    fcntl: Any = importlib.import_module("fcntl")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def flush(path: Path) -> None:
    """Flushes the content of a file, or the entries of a folder, to disk, and waits until they have been written.

    Raises OSError if they cannot be flushed. On Windows, folders cannot be opened and are not flushed, because NTFS
    records their entries in its journal; files must be open for writing to be flushed. On macOS, a separate command
    also flushes the cache of the disk.
    """
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
        if MACOS:
            fcntl: Any = importlib.import_module("fcntl")
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    finally:
        os.close(descriptor)


def replace(source: Path, target: Path) -> None:
    """Renames `source` to `target`, replacing an existing file.

    Windows does not permit this while another program, such as a virus scanner, has opened `target`. On Windows, the
    renaming is therefore retried for a few seconds.
    """
    for tries_left in range(RENAME_TRIES if WINDOWS else 1, 0, -1):
        try:
            source.replace(target)
            return
        except PermissionError:
            if tries_left == 1:
                raise
        time.sleep(WAIT)
