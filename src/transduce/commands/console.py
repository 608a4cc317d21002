"""Messages on standard error, and terminals that are protected from control characters in texts."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TextIO, cast

from transduce.runtime.progress import Progress, display_progress, is_terminal

# C0 without tab and newline, DEL and C1; bidirectional embeddings, overrides and isolates; bytes that are not UTF-8.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")


def escape_control_characters(text: str) -> str:
    """Replaces each control character by a readable escape, for example `\\x1b`."""
    return _CONTROL.sub(
        lambda match: (
            match.group().encode("ascii", "backslashreplace").decode()
            if match.group() > "\x9f"
            else f"\\x{ord(match.group()):02x}"
        ),
        text,
    )


class EscapingStream:
    """The stream of a terminal, with control characters escaped.

    It says that it is not a terminal, so that libraries do not write colours to it: colorama, which numba imports,
    keeps the stream that it finds, and resets the colours of a terminal at exit.
    """

    is_terminal = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes `text` with readable escapes."""
        return self._stream.write(escape_control_characters(text))

    def isatty(self) -> bool:
        """Always False, for libraries; this project calls `transduce.runtime.progress.is_terminal`."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def escaped_on_terminal(stream: TextIO) -> TextIO:
    """Wraps `stream` to escape control characters if it is a terminal; files and pipes get texts unchanged.

    Wraps standard output and standard error, so that no message, warning or traceback needs to be escaped where it is
    created. Progress bars, which move the cursor, write to `sys.__stderr__`.
    """
    if isinstance(stream, EscapingStream) or not is_terminal(stream):
        return stream
    return cast(TextIO, EscapingStream(stream))


def aligned_table(rows: Sequence[tuple[str, str]]) -> str:
    """Formats rows of a name and a value in two columns.

    Values are aligned to the right, before their units, if every value begins with a digit; else to the left.
    """
    name_width = max(len(name) for name, _ in rows)
    if not all(value[:1].isdigit() for _, value in rows):
        return "\n".join(f"{name:{name_width}}  {value}".rstrip() for name, value in rows)
    number_width = max(len(value.split(" ")[0]) for _, value in rows)
    cells = [(name, *value.partition(" ")) for name, value in rows]
    lines = (f"{name:{name_width}}  {number:>{number_width}} {unit}" for name, number, _, unit in cells)
    return "\n".join(line.rstrip() for line in lines)


def say(line: str) -> None:
    """Prints a line on standard error; a closed pipe or a full disk does not stop the work."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def show_log_records(show: Callable[[str], None] = say) -> None:
    """Prints the messages of the logger `transduce`, for example the progress of a run, with `show`."""
    import logging

    class ConsoleHandler(logging.Handler):
        """Prints records with `show`."""

        def emit(self, record: logging.LogRecord) -> None:
            """Prints the message of `record`."""
            show(record.getMessage())

    logger = logging.getLogger("transduce")
    logger.setLevel(logging.INFO)
    logger.handlers[:] = [ConsoleHandler()]
    logger.propagate = False


@contextlib.contextmanager
def progress_on_terminal() -> Iterator[None]:
    """Shows progress bars within the context if standard error is a terminal and the process has rank 0."""
    if os.environ.get("RANK", "0") != "0" or os.environ.get("TERM") == "dumb" or not is_terminal(sys.stderr):
        yield
        return
    with display_progress(_show_bar):
        yield


def _show_bar(description: str, total: float | None) -> AbstractContextManager[Progress]:
    from transduce.commands.progress_bars import show_bar  # rich is slow to import

    return show_bar(description, total)


def flush_or_discard(stream: TextIO | None) -> None:
    """Flushes a stream; discards output that cannot be written, because it would cause an error at exit."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
