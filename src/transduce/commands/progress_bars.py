"""Draws progress bars on a terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress as rich_progress
from rich.console import Console

from transduce.commands.console import escape_control_characters, escaped_on_terminal
from transduce.runtime.progress import Progress

FIRST_SECONDS = 0.5  # a task that takes less time gets no bar
REFRESH_SECONDS = 0.1


class CursorConsole(Console):
    """A console that never hides the cursor, because the cursor would stay hidden if the process were killed."""

    def show_cursor(self, show: bool = True) -> bool:
        """Does nothing, so that the cursor stays visible."""
        return False


class Bars:
    """The progress bars of all running tasks.

    The bars are redrawn when a task reports progress, and rich's own refresh thread is turned off.
    """

    def __init__(self) -> None:
        self.display = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(),
            rich_progress.TextColumn("{task.fields[count]}", markup=False),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("{task.fields[note]}", markup=False),
            console=CursorConsole(file=sys.__stderr__),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
        )
        self.drawn = 0.0

    def draw(self, task: rich_progress.TaskID | None, progress: Progress) -> rich_progress.TaskID:
        """Draws the bar of `task`, or adds a new bar if `task` is None, and returns the task."""
        total = "" if progress.total is None else f"/{progress.total:,.0f}"
        count = f"{progress.done:,.0f}{total}"
        if task is None:
            # Units that an earlier call has finished do not count towards the rate.
            done = int(progress.done)
            task = self.display.add_task(
                progress.description, total=progress.total, completed=done, count=count, note=progress.note
            )
            self.display.start()
            sys.stderr = escaped_on_terminal(sys.stderr)  # rich replaces standard error until `stop`
        else:
            self.display.update(task, total=progress.total, completed=progress.done, count=count, note=progress.note)
        self.display.refresh()
        self.drawn = time.monotonic()
        return task

    def remove(self, task: rich_progress.TaskID) -> None:
        """Removes a bar, and ends the display if no bars are left."""
        self.display.remove_task(task)
        if not self.display.tasks:
            self.display.stop()


class BarProgress(Progress):
    """Counts the finished units of a task and draws its bar."""

    def __init__(self, bars: Bars, description: str, total: float | None) -> None:
        super().__init__(escape_control_characters(description), total)
        self.bars, self.began = bars, time.monotonic()
        self.task: rich_progress.TaskID | None = None

    def update(self, done: float, note: str = "") -> None:
        """Sets the number of finished units, and redraws the bar unless one was drawn within REFRESH_SECONDS.

        Nothing is drawn in the first FIRST_SECONDS of a task.
        """
        super().update(done, escape_control_characters(note))
        now = time.monotonic()
        if now - self.began > FIRST_SECONDS and now - self.bars.drawn > REFRESH_SECONDS:
            self.task = self.bars.draw(self.task, self)


_bars: list[Bars] = []


@contextmanager
def show_bar(description: str, total: float | None) -> Iterator[Progress]:
    """Yields a Progress whose bar is displayed on standard error until the context ends."""
    if not _bars:
        _bars.append(Bars())
    progress = BarProgress(_bars[0], description, total)
    try:
        yield progress
    finally:
        if progress.task is not None:
            progress.bars.remove(progress.task)
