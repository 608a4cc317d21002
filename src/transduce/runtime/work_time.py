"""The time in which this process runs: it stands still while the process or its machine is stopped."""

import threading
import time

__all__ = ["WorkTime"]

TICK_SECONDS = 1.0
LONGEST_GAP_SECONDS = 30.0


class WorkTime:
    """Adds up the seconds since its making, without those in which the process was stopped, until it is closed.

    A thread reads the monotonic clock at every tick. Where two readings are further apart than LONGEST_GAP_SECONDS, the
    process did not run: it was stopped by SIGSTOP, or its container, virtual machine or machine was.
    """

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._seconds, self._last = 0.0, time.monotonic()
        threading.Thread(target=self._tick, daemon=True).start()

    def seconds(self) -> float:
        """Returns the seconds so far."""
        with self._lock:
            now = time.monotonic()
            gap, self._last = now - self._last, now
            self._seconds += gap if gap <= LONGEST_GAP_SECONDS else 0.0
            return self._seconds

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()

    def _tick(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            self.seconds()
