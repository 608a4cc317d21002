"""Prints messages on standard error, and protects terminals from control characters in texts."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TextIO, cast

from transduce.runtime.progress import Progress, display_progress, is_terminal

# C0 except tab and newline, DEL and C1; bidirectional embeddings, overrides and isolates; bytes that are not UTF-8.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")


def escape_control_characters(text: str) -> str:
    """Replaces each control character with a visible escape sequence, for example `\\x1b`."""
    return _CONTROL.sub(
        lambda match: (
            match.group().encode("ascii", "backslashreplace").decode()
            if match.group() > "\x9f"
            else f"\\x{ord(match.group()):02x}"
        ),
        text,
    )


class EscapingStream:
    """Wraps the stream of a terminal and escapes the control characters that are written to it.

    `isatty` returns False, so that libraries do not write colours to the stream. For example, colorama, which numba
    imports, would otherwise reset the colours of the terminal at exit.
    """

    is_terminal = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes `text` with its control characters escaped."""
        return self._stream.write(escape_control_characters(text))

    def isatty(self) -> bool:
        """Returns False, so that libraries write no colours; this project calls `runtime.progress.is_terminal`."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def escaped_on_terminal(stream: TextIO) -> TextIO:
    """Wraps `stream` to escape control characters if it is a terminal, and returns it unchanged otherwise.

    Standard output and standard error are wrapped, so that no message, warning or traceback needs to be escaped where
    it is created. Progress bars have to move the cursor, so they write to `sys.__stderr__` instead.
    """
    if isinstance(stream, EscapingStream) or not is_terminal(stream):
        return stream
    return cast(TextIO, EscapingStream(stream))


def aligned_table(rows: Sequence[tuple[str, str]]) -> str:
    """Formats rows of a name and a value as a table with two columns.

    If every value begins with a digit, the numbers are right-aligned and followed by their units. Otherwise the values
    are left-aligned.
    """
    name_width = max(len(name) for name, _ in rows)
    if not all(value[:1].isdigit() for _, value in rows):
        return "\n".join(f"{name:{name_width}}  {value}".rstrip() for name, value in rows)
    number_width = max(len(value.split(" ")[0]) for _, value in rows)
    cells = [(name, *value.partition(" ")) for name, value in rows]
    lines = (f"{name:{name_width}}  {number:>{number_width}} {unit}" for name, number, _, unit in cells)
    return "\n".join(line.rstrip() for line in lines)


def say(line: str) -> None:
    """Prints a line on standard error; ignores failures, such as a closed pipe, which must not stop the command."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def show_log_records(show: Callable[[str], None] = say) -> None:
    """Passes the messages of the logger `transduce`, for example the progress of a run, to `show`."""
    import logging

    class ConsoleHandler(logging.Handler):
        """A logging handler that passes messages to `show`."""

        def emit(self, record: logging.LogRecord) -> None:
            """Passes the message of `record` to `show`."""
            show(record.getMessage())

    logger = logging.getLogger("transduce")
    logger.setLevel(logging.INFO)
    logger.handlers[:] = [ConsoleHandler()]
    logger.propagate = False


@contextlib.contextmanager
def progress_on_terminal() -> Iterator[None]:
    """Displays progress bars within the context, if standard error is a terminal and this process has rank 0."""
    if os.environ.get("RANK", "0") != "0" or os.environ.get("TERM") == "dumb" or not is_terminal(sys.stderr):
        yield
        return
    with display_progress(_show_bar):
        yield


def _show_bar(description: str, total: float | None) -> AbstractContextManager[Progress]:
    from transduce.commands.progress_bars import show_bar  # rich is slow to import

    return show_bar(description, total)


def flush_or_discard(stream: TextIO | None) -> None:
    """Flushes a stream; discards output that cannot be written, which would otherwise cause an error at exit."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
