"""How far something long has come: bytes, rate, time left; in place on a terminal, elsewhere a line now and then."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

__all__ = ["Meter", "readable"]

UNITS = ("bytes", "kB", "MB", "GB", "TB")
OFTEN, SELDOM = 0.2, 30.0  # seconds between two looks, on a terminal and elsewhere


class Meter:
    """Counts bytes, `done` of `total` (None where that is unknown), the first `done` of which were there before."""

    def __init__(self, total: int | None, done: int, say: Callable[[str], None]) -> None:
        self.total, self.done, self._before, self._say = total, done, done, say
        self._live = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()

    def add(self, count: int) -> None:
        """Notes `count` bytes more, and shows them if it is time to."""
        self.done += count
        if (now := time.monotonic()) - self._shown < (OFTEN if self._live else SELDOM):
            return
        self._shown = now
        if self._live:
            print(f"\r\x1b[K  {self}", end="", file=sys.stderr, flush=True)
        else:
            self._say(f"  {self}")

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-3)
        rate = (self.done - self._before) / seconds
        text = f"{readable(self.done)}, {readable(rate)} a second"
        if not self.total:
            return text
        text = f"{self.done / self.total:.0%} of {readable(self.total)}, {readable(rate)} a second"
        return text + (f", {_clock((self.total - self.done) / rate)} left" if rate and self.done < self.total else "")

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


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
