"""Progress of a download: bytes, rate and remaining time."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from transduce.runtime.rate import ProgressRate
from transduce.runtime.terminal import is_terminal

__all__ = ["Meter", "Say", "format_bytes"]

UNITS = ("bytes", "kB", "MB", "GB", "TB")
OFTEN, SELDOM = 0.2, 30.0  # seconds between two reports, on a terminal and elsewhere

Say = Callable[[str], None]
"""Prints a line for the user."""


class Meter:
    """Counts the bytes of a download, and shows them in place on a terminal, elsewhere as a line now and then.

    `total` is None where the size is unknown; the first `done` bytes were downloaded before.
    """

    def __init__(self, total: int | None, done: int, say: Say) -> None:
        self.pace, self._say = ProgressRate(total, done), say
        self._on_terminal = is_terminal(sys.stderr)

    def add(self, count: int) -> None:
        """Adds `count` bytes, and shows the sum if a report is due."""
        self.pace.done += count
        if not self.pace.is_report_due(OFTEN if self._on_terminal else SELDOM):
            return
        if self._on_terminal:
            print(f"\r\x1b[K  {self}", end="", file=sys.__stderr__, flush=True)
        else:
            self._say(f"  {self}")

    def __str__(self) -> str:
        pace = self.pace
        done = f"{pace.done / pace.total:.0%} of {format_bytes(pace.total)}" if pace.total else format_bytes(pace.done)
        return f"{done}, {format_bytes(pace.rate)} a second{pace.time_left}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._on_terminal:
            print("\r\x1b[K", end="", file=sys.__stderr__, flush=True)
        if kind is None:
            self._say(f"  {self}")


def format_bytes(size: float) -> str:
    """Formats a number of bytes in powers of 1,000, such as `80.4 MB`."""
    for unit in UNITS[:-1]:
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == UNITS[0] or size >= 99.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {UNITS[-1]}"
