"""Progress of long work: its count, its rate, the time that it has taken, and whether output goes to a terminal.

The library code counts progress; only the command line displays it.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import IO


class Progress:
    """Counts the finished units of a task and displays nothing; `total` is None if it is unknown."""

    def __init__(self, description: str, total: float | None = None) -> None:
        self.description, self.total = description, total
        self.done: float = 0
        self.note = ""

    def advance(self, count: float = 1, note: str = "") -> None:
        """Adds `count` finished units."""
        self.update(self.done + count, note)

    def update(self, done: float, note: str = "") -> None:
        """Sets the number of finished units; an empty `note` keeps the last one."""
        self.done, self.note = done, note or self.note


ProgressDisplay = Callable[[str, float | None], AbstractContextManager[Progress]]
"""Makes the Progress of a task from its description and total, and displays it until the context ends."""

_displays: list[ProgressDisplay] = []
_stages: list[str] = []


@contextmanager
def display_progress(display: ProgressDisplay) -> Iterator[None]:
    """Makes `track` use `display` within the context."""
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)


@contextmanager
def track(description: str, total: float | None = None) -> Iterator[Progress]:
    """Yields the Progress of a task, for example "translating"; it is displayed if a display is set."""
    description = ": ".join([*_stages, description])
    if not _displays:
        yield Progress(description, total)
        return
    with _displays[-1](description, total) as progress:
        yield progress


@contextmanager
def no_progress() -> Iterator[None]:
    """Logs nothing below a warning and displays no progress within the context."""
    with quiet(), display_progress(lambda description, total: contextlib.nullcontext(Progress(description, total))):
        yield


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Names the work within the context.

    The descriptions of its tasks begin with the name: `probe 2 of 4: training`.
    """
    _stages.append(name)
    try:
        yield
    finally:
        _stages.pop()


class ProgressRate:
    """Measures how fast `done` approaches `total`; the initial `done` does not count towards the rate.

    `total` is None if it is unknown.
    """

    def __init__(self, total: int | None, done: int = 0) -> None:
        self.total, self.done, self._before = total, done, done
        self._began = self._reported = time.monotonic()

    def is_report_due(self, seconds: float) -> bool:
        """Whether `seconds` have passed since the last report; if so, starts to count again."""
        now = time.monotonic()
        if now - self._reported < seconds:
            return False
        self._reported = now
        return True

    @property
    def rate(self) -> float:
        """Units per second."""
        return (self.done - self._before) / max(time.monotonic() - self._began, 1e-3)

    @property
    def time_left(self) -> str:
        """The time left as a clause, for example ", 0:12:05 left"; empty if it is unknown."""
        if not self.total or not self.rate or self.done >= self.total:
            return ""
        return f", {timedelta(seconds=round((self.total - self.done) / self.rate))} left"


class LineProgress(Progress):
    """Counts finished units and rewrites one line of standard error: `translating 1,200/10,000, 0:00:12 left`."""

    def __init__(self, description: str, total: float | None) -> None:
        super().__init__(description, total)
        self._rate, self._width = ProgressRate(None if total is None else int(total)), 0

    def update(self, done: float, note: str = "") -> None:
        """Sets the number of finished units, and rewrites the line at most twice a second."""
        super().update(done, note)
        self._rate.done = int(done)
        if self._rate.is_report_due(0.5):
            total = "" if self.total is None else f"/{self.total:,.0f}"
            self._write(f"{self.description} {done:,.0f}{total}{self._rate.time_left}")

    def clear(self) -> None:
        """Clears the line."""
        if self._width:
            self._write("")
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:{self._width}}")
        sys.stderr.flush()
        self._width = len(text)


@contextmanager
def progress_line() -> Iterator[None]:
    """Shows progress as a line on standard error within the context, at a terminal and in a notebook.

    If a display is already set, for example by the command line, it is used instead.
    """
    if _displays or not (is_terminal(sys.stderr) or "ipykernel" in sys.modules):
        yield
        return

    @contextmanager
    def display(description: str, total: float | None) -> Iterator[Progress]:
        progress = LineProgress(description, total)
        try:
            yield progress
        finally:
            progress.clear()

    with display_progress(display):
        yield


TICK_SECONDS = 1.0
LONGEST_GAP_SECONDS = 30.0


class WorkTime:
    """Adds up the seconds since its creation until it is closed, except the time in which the process was stopped.

    A thread reads the monotonic clock at every tick. If two readings are further apart than LONGEST_GAP_SECONDS, the
    process did not run: it was stopped by SIGSTOP, or its container, virtual machine or machine was suspended.
    """

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._seconds, self._last = 0.0, time.monotonic()
        threading.Thread(target=self._tick, daemon=True).start()

    def seconds(self) -> float:
        """Seconds so far."""
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


def is_terminal(stream: IO[str] | IO[bytes] | None) -> bool:
    """Whether `stream` writes to or reads from a terminal.

    The streams of the command line, which escape control characters, answer False to `isatty`, so that no library
    writes colours to them; they have an attribute `is_terminal` instead.
    """
    return stream is not None and (getattr(stream, "is_terminal", False) or stream.isatty())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Logs nothing below a warning within the context."""
    import logging  # imported here, because `transduce --help` logs nothing

    logger = logging.getLogger("transduce")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)
