"""Progress reporting for long-running tasks, and helpers for measuring time and recognising terminals.

Library code only counts progress, with `track`. Whether and how the progress is displayed is decided by the caller, for
example the command line, with `display_progress`.
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
    """Counts the finished units of a task, without displaying them; `total` is None if it is unknown."""

    def __init__(self, description: str, total: float | None = None) -> None:
        self.description, self.total = description, total
        self.done: float = 0
        self.note = ""

    def advance(self, count: float = 1, note: str = "") -> None:
        """Adds `count` to the number of finished units."""
        self.update(self.done + count, note)

    def update(self, done: float, note: str = "") -> None:
        """Sets the number of finished units, and the note unless `note` is empty."""
        self.done, self.note = done, note or self.note


ProgressDisplay = Callable[[str, float | None], AbstractContextManager[Progress]]
"""A function that creates the `Progress` of a task from its description and total, as a context manager.

The progress is displayed until the context ends.
"""

_displays: list[ProgressDisplay] = []
_stages: list[str] = []


@contextmanager
def display_progress(display: ProgressDisplay) -> Iterator[None]:
    """Displays the progress of all tasks within the context with `display`."""
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)


@contextmanager
def track(description: str, total: float | None = None) -> Iterator[Progress]:
    """Yields the `Progress` of a task, which is displayed if a display has been set by `display_progress`.

    `description` says what the task does, for example "translating".
    """
    description = ": ".join([*_stages, description])
    if not _displays:
        yield Progress(description, total)
        return
    with _displays[-1](description, total) as progress:
        yield progress


@contextmanager
def no_progress() -> Iterator[None]:
    """Suppresses the display of progress, and log messages below the level of a warning, within the context."""
    with quiet(), display_progress(lambda description, total: contextlib.nullcontext(Progress(description, total))):
        yield


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Prefixes the descriptions of all tasks within the context with `name`, for example `probe 2 of 4: training`."""
    _stages.append(name)
    try:
        yield
    finally:
        _stages.pop()


class ProgressRate:
    """Measures the speed of a task and estimates the time left.

    `total` is None if it is unknown. Units that were already `done` at the beginning do not count towards the speed.
    """

    def __init__(self, total: int | None, done: int = 0) -> None:
        self.total, self.done, self._before = total, done, done
        self._began = self._reported = time.monotonic()

    def is_report_due(self, seconds: float) -> bool:
        """Returns True if `seconds` seconds have passed since the last report, and restarts the clock in that case."""
        now = time.monotonic()
        if now - self._reported < seconds:
            return False
        self._reported = now
        return True

    @property
    def rate(self) -> float:
        """The number of units finished per second."""
        return (self.done - self._before) / max(time.monotonic() - self._began, 1e-3)

    @property
    def time_left(self) -> str:
        """The estimated time left as text, for example ", 0:12:05 left", or an empty string if it is unknown."""
        if not self.total or not self.rate or self.done >= self.total:
            return ""
        return f", {timedelta(seconds=round((self.total - self.done) / self.rate))} left"


class LineProgress(Progress):
    """Displays the progress of a task in one line on standard error.

    The line reads, for example, `translating 1,200/10,000, 0:00:12 left`.
    """

    def __init__(self, description: str, total: float | None) -> None:
        super().__init__(description, total)
        self._rate, self._width = ProgressRate(None if total is None else int(total)), 0

    def update(self, done: float, note: str = "") -> None:
        """Sets the number of finished units, and redraws the line at most twice per second."""
        super().update(done, note)
        self._rate.done = int(done)
        if self._rate.is_report_due(0.5):
            total = "" if self.total is None else f"/{self.total:,.0f}"
            self._write(f"{self.description} {done:,.0f}{total}{self._rate.time_left}")

    def clear(self) -> None:
        """Erases the line."""
        if self._width:
            self._write("")
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:{self._width}}")
        sys.stderr.flush()
        self._width = len(text)


@contextmanager
def progress_line() -> Iterator[None]:
    """Displays progress within the context as a line on standard error, at a terminal or in a notebook.

    If another display has already been set, for example by the command line, that display is used instead.
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
    """Measures the time since its creation during which the process was actually running.

    A background thread reads the monotonic clock at regular intervals, until `close` is called. If two readings are
    more than LONGEST_GAP_SECONDS apart, the time between them does not count, because the process was not running: it
    was stopped by SIGSTOP, or its container, its virtual machine or the machine itself was suspended.
    """

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._seconds, self._last = 0.0, time.monotonic()
        threading.Thread(target=self._tick, daemon=True).start()

    def seconds(self) -> float:
        """Returns the time measured so far, in seconds."""
        with self._lock:
            now = time.monotonic()
            gap, self._last = now - self._last, now
            self._seconds += gap if gap <= LONGEST_GAP_SECONDS else 0.0
            return self._seconds

    def close(self) -> None:
        """Stops the background thread."""
        self._closed.set()

    def _tick(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            self.seconds()


def is_terminal(stream: IO[str] | IO[bytes] | None) -> bool:
    """Returns True if `stream` is connected to a terminal.

    This function also recognises the streams of the command line, which escape control characters. Their method
    `isatty` returns False, so that libraries do not write colours to them; they have an attribute `is_terminal`
    instead.
    """
    return stream is not None and (getattr(stream, "is_terminal", False) or stream.isatty())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses log messages below the level of a warning within the context."""
    import logging  # imported here, because `transduce --help` does not need it

    logger = logging.getLogger("transduce")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)
