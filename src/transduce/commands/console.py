"""What verbs tell people while they work: on standard error, whoever still reads it."""

import contextlib
import os
import sys
from typing import TextIO

__all__ = ["let_go", "say"]


def say(line: str) -> None:
    """One line; where the reader has left, or the disk of a log is full, the work goes on without it."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def let_go(stream: TextIO | None) -> None:
    """Writes what is left in a stream, or lets go what nobody takes: at exit it would be an error and another code."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
