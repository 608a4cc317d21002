"""What verbs tell people while they work: on standard error, whoever still reads it."""

import contextlib
import sys

__all__ = ["say"]


def say(line: str) -> None:
    """One line; where the reader has left, the work goes on without it."""
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)
