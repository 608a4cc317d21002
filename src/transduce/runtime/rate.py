"""The rate of long work and the time it has left."""

import time
from datetime import timedelta

__all__ = ["ProgressRate"]


class ProgressRate:
    """Measures how fast `done` approaches `total`; the units of the initial `done` do not count for the rate.

    `total` is None where it is unknown.
    """

    def __init__(self, total: int | None, done: int = 0) -> None:
        self.total, self.done, self._before = total, done, done
        self._began = self._reported = time.monotonic()

    def is_report_due(self, seconds: float) -> bool:
        """Returns whether `seconds` have passed since the last report; if so, counts them from now."""
        now = time.monotonic()
        if now - self._reported < seconds:
            return False
        self._reported = now
        return True

    @property
    def rate(self) -> float:
        """The units a second."""
        return (self.done - self._before) / max(time.monotonic() - self._began, 1e-3)

    @property
    def time_left(self) -> str:
        """The time left as a clause, such as ", 0:12:05 left"; empty where it is unknown."""
        if not self.total or not self.rate or self.done >= self.total:
            return ""
        return f", {timedelta(seconds=round((self.total - self.done) / self.rate))} left"
