"""How far something long has come: bytes, rate, time left; in place on a terminal, elsewhere a line now and then."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from transduce.runtime.rate import ProgressRate

__all__ = ["Meter", "readable"]

UNITS = ("bytes", "kB", "MB", "GB", "TB")
OFTEN, SELDOM = 0.2, 30.0  # seconds between two looks, on a terminal and elsewhere


class Meter:
    """Counts bytes, `done` of `total` (None where that is unknown), the first `done` of which were there before."""

    def __init__(self, total: int | None, done: int, say: Callable[[str], None]) -> None:
        self.pace, self._say = ProgressRate(total, done), say
        self._live = sys.stderr.isatty()

    def add(self, count: int) -> None:
        """Notes `count` bytes more, and shows them if it is time to."""
        self.pace.done += count
        if not self.pace.is_report_due(OFTEN if self._live else SELDOM):
            return
        if self._live:
            print(f"\r\x1b[K  {self}", end="", file=sys.stderr, flush=True)
        else:
            self._say(f"  {self}")

    def __str__(self) -> str:
        pace = self.pace
        done = f"{pace.done / pace.total:.0%} of {readable(pace.total)}" if pace.total else readable(pace.done)
        return f"{done}, {readable(pace.rate)} a second{pace.time_left}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if kind is None:
            self._say(f"  {self}")


def readable(size: float) -> str:
    """A number of bytes as people read it, in powers of a thousand."""
    for unit in UNITS[:-1]:
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == UNITS[0] or size >= 99.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {UNITS[-1]}"
