"""Messages to people on standard error, and terminals that are safe from the control characters of texts."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TextIO

from transduce.runtime.progress import Progress, display_progress

__all__ = [
    "aligned_table",
    "escape_control_characters",
    "escape_on_terminal",
    "let_go",
    "progress_on_terminal",
    "say",
    "show_log_records",
]

# C0 without tab and newline, DEL and C1; bidirectional embeddings, overrides and isolates; bytes that are no UTF-8.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\udc80-\udcff]")


def escape_control_characters(text: str) -> str:
    """Returns `text` with each control character as an escape that can be read, such as `\\x1b`."""
    return _CONTROL.sub(
        lambda match: (
            match.group().encode("ascii", "backslashreplace").decode()
            if match.group() > "\x9f"
            else f"\\x{ord(match.group()):02x}"
        ),
        text,
    )


def escape_on_terminal(stream: TextIO | None) -> None:
    """Has `stream` escape control characters where it is a terminal; files and pipes get texts unchanged."""
    if stream is not None and stream.isatty():
        write = stream.write
        stream.write = lambda text: write(escape_control_characters(text))  # type: ignore[method-assign]


def aligned_table(rows: Sequence[tuple[str, str]]) -> str:
    """Returns rows of a name and a value as two columns; numbers with their units where each value begins with a digit.

    Numbers are aligned to the right, what is no number to the left.
    """
    names = max(len(name) for name, _ in rows)
    if not all(value[:1].isdigit() for _, value in rows):
        return "\n".join(f"{name:{names}}  {value}".rstrip() for name, value in rows)
    numbers = max(len(value.split(" ")[0]) for _, value in rows)
    parted = [(name, *value.partition(" ")) for name, value in rows]
    return "\n".join(f"{name:{names}}  {number:>{numbers}} {unit}".rstrip() for name, number, _, unit in parted)


def say(line: str) -> None:
    """Prints a line on standard error; a reader that has left, or a full disk, does not stop the work."""
    with contextlib.suppress(OSError):
        print(escape_control_characters(line) if sys.stderr.isatty() else line, file=sys.stderr, flush=True)


def show_log_records() -> None:
    """Prints the records of the logger `transduce`, such as that of a long compilation, on standard error."""
    import logging

    class ConsoleHandler(logging.Handler):
        """Prints records with `say`."""

        def emit(self, record: logging.LogRecord) -> None:
            """Prints the message of `record`."""
            say(record.getMessage())

    logger = logging.getLogger("transduce")
    logger.setLevel(logging.INFO)
    logger.handlers[:] = [ConsoleHandler()]
    logger.propagate = False


@contextlib.contextmanager
def progress_on_terminal() -> Iterator[None]:
    """Shows progress bars within the context where standard error is a terminal, in the first process only."""
    if os.environ.get("RANK", "0") != "0" or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty():
        yield
        return
    with display_progress(_show_bar):
        yield


def _show_bar(description: str, total: float | None) -> AbstractContextManager[Progress]:
    """Shows the progress bar of a task."""
    from transduce.commands.bars import show_bar  # imported here: rich takes a moment to come

    return show_bar(description, total)


def let_go(stream: TextIO | None) -> None:
    """Flushes a stream; where nobody takes what is left, discards it, which would be an error at exit."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
