"""Progress of long work: libraries count it, the command line may display it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

__all__ = ["Progress", "ProgressDisplay", "display_progress", "track"]


class Progress:
    """Counts the finished units of a task and displays nothing; `total` is None where it is unknown."""

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
"""Returns the Progress of a task from its description and total, and displays it until the context ends."""

_displays: list[ProgressDisplay] = []


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
    """Yields the Progress of a task such as "translating", displayed where a display is set."""
    if not _displays:
        yield Progress(description, total)
        return
    with _displays[-1](description, total) as progress:
        yield progress
