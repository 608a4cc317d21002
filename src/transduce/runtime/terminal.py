"""Whether a stream is a terminal, for what only people read: prompts, bars, control characters as escapes."""

from typing import IO

__all__ = ["is_terminal"]


def is_terminal(stream: IO[str] | IO[bytes] | None) -> bool:
    """Returns whether `stream` writes to or reads from a terminal.

    The streams of the command line, which escape control characters, answer False to `isatty`, so that no library
    writes colours to them; they have an attribute `is_terminal` instead.
    """
    return stream is not None and (getattr(stream, "is_terminal", False) or stream.isatty())
