"""Progress of long work: counted where the work is done, displayed as the command line chooses, else not at all."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

__all__ = ["Progress", "ProgressDisplay", "display_progress", "track"]


class Progress:
    """Counts what is done of one task, of `total` units; `total` is None where it is unknown. Displays nothing."""

    def __init__(self, description: str, total: float | None = None) -> None:
        self.description, self.total = description, total
        self.done: float = 0
        self.note = ""

    def advance(self, count: float = 1, note: str = "") -> None:
        """Adds `count` units to what is done."""
        self.update(self.done + count, note)

    def update(self, done: float, note: str = "") -> None:
        """Sets what is done; an empty `note` keeps the last one."""
        self.done, self.note = done, note or self.note


ProgressDisplay = Callable[[str, float | None], AbstractContextManager[Progress]]
"""Makes the Progress of a task, by its description and total, and displays it until the context ends."""

_displays: list[ProgressDisplay] = []


@contextmanager
def display_progress(display: ProgressDisplay) -> Iterator[None]:
    """Has `track` use `display` within the context."""
    _displays.append(display)
    try:
        yield
    finally:
        _displays.remove(display)


@contextmanager
def track(description: str, total: float | None = None) -> Iterator[Progress]:
    """Gives the Progress of a task such as "translating", displayed as the command line has chosen."""
    if not _displays:
        yield Progress(description, total)
        return
    with _displays[-1](description, total) as progress:
        yield progress
