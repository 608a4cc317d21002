"""Counts forks: the threads of a process do not survive one, and code that waits for them hangs or is killed."""

import os

__all__ = ["count_forks"]

_forks = 0


def count_forks() -> int:
    """Returns the number of forks between the first Python process and this one."""
    return _forks


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_fork)
