"""How far something long has come, how fast it goes, and how long it will take."""

import time
from datetime import timedelta

__all__ = ["ProgressRate"]


class ProgressRate:
    """`done` of `total` (None where that is unknown); what was done before the beginning is not counted as fast."""

    def __init__(self, total: int | None, done: int = 0) -> None:
        self.total, self.done, self._before = total, done, done
        self._began = self._told = time.monotonic()

    def told(self, seconds: float) -> bool:
        """Whether a word about it is due, `seconds` after the last; if so, it is taken to be given."""
        now = time.monotonic()
        if now - self._told < seconds:
            return False
        self._told = now
        return True

    @property
    def rate(self) -> float:
        """So many a second."""
        return (self.done - self._before) / max(time.monotonic() - self._began, 1e-3)

    @property
    def left(self) -> str:
        """A clause, ", 0:12:05 left"; empty where nobody knows."""
        if not self.total or not self.rate or self.done >= self.total:
            return ""
        return f", {timedelta(seconds=round((self.total - self.done) / self.rate))} left"
