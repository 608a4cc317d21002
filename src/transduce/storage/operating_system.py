"""Differences between operating systems in locking, flushing and renaming files."""

import errno
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

WINDOWS, MACOS = os.name == "nt", sys.platform == "darwin"

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
"""Errors of a file system without locks."""

HELD = (errno.EACCES, errno.EDEADLK)  # error numbers on Windows if another process has the lock
WAIT = 0.1  # seconds between two tries
RENAME_TRIES = 50

TRIES = 100
"""Number of tries to lock a file or folder; a try fails only if another process has just removed or renamed it."""


def lock(folder: Path, *, wait: bool) -> int:
    """Locks `folder` and returns a descriptor; the lock ends when the descriptor is closed, or with the process.

    Windows cannot lock folders, so a file next to the folder is locked instead; that file is not removed. Raises
    BlockingIOError if another process has the lock, unless `wait`, and another OSError if the file system has no locks.
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
        time.sleep(WAIT)  # LK_LOCK would wait for only ten seconds


def _lock_posix(folder: Path, *, wait: bool) -> int:
    """Locks the folder at a path; tries again if another process has put a new folder there while this one waited."""
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
    """Builds the error for a file system whose inode numbers change.

    On some FUSE file systems, the inode number of an open file differs from the inode number at its path.
    """
    return OSError(
        f"{path}: this file system has changing inode numbers, so that no lock can be checked; choose a folder on a "
        "local disk, or mount the file system with inode numbers that stay"
    )


def lock_if_supported(descriptor: int) -> None:
    """Locks an open file until it is closed; raises BlockingIOError if it is locked.

    Does nothing if the file system has no locks, or on Windows, where nobody can remove or rename an open file.
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
    """Returns when the content of a file, or the entries of a folder, have reached the disk; raises OSError.

    Windows cannot open folders, whose entries NTFS keeps in its journal, and flushes only files that are open for
    writing. macOS has a separate command that also flushes the disk's cache.
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
    """Renames a file to `target`, which may exist.

    Windows refuses this while another program, for example a virus scanner, has `target` open, so there it is retried
    for a few seconds.
    """
    for tries_left in range(RENAME_TRIES if WINDOWS else 1, 0, -1):
        try:
            source.replace(target)
            return
        except PermissionError:
            if tries_left == 1:
                raise
        time.sleep(WAIT)
