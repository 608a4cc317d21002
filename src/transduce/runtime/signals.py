"""Being asked to stop: the step at hand is finished, and what was done is saved."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["Interrupted", "OtherProcessError", "collect_signals", "raise_on_signals"]


class Interrupted(BaseException):
    """A signal, `number`, asked to stop; what was done is saved. No fault, as `KeyboardInterrupt` is none."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class OtherProcessError(Exception):
    """Another process of the same training has failed, and says itself why."""


@contextlib.contextmanager
def collect_signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM, so that the step at hand can be finished; a second one acts at once.

    One that is ignored stays so: a shell has what it starts in the background ignore SIGINT, which is for another.
    """
    caught: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(number, before[number])

    before: dict[int, Any] = {}
    for asked in _heeded():
        before[asked] = signal.signal(asked, note)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def raise_on_signals() -> Iterator[None]:
    """Has SIGINT and SIGTERM end what is at work by an `Interrupted`; while that clears up, a second one kills."""

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise Interrupted(number)

    before = {asked: signal.signal(asked, end) for asked in _heeded()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heeded() -> list[int]:
    """Returns the signals to handle: neither ignored ones, nor any outside of the main thread, which alone may."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [asked for asked in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(asked) is not signal.SIG_IGN]
