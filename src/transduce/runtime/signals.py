"""Handles SIGINT and SIGTERM, by raising an exception or by letting training stop after the current step."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """Raised when the program is interrupted by the signal `number`.

    Like KeyboardInterrupt, it is derived from BaseException, so that `except Exception` does not catch it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class StoppedTogether(Interrupted):
    """Raised after a signal in all processes of a run, which stop together after the same step."""


class OtherProcessError(Exception):
    """Raised if another process of the run has failed. That process reports the reason itself."""


@contextlib.contextmanager
def collect_signals() -> Iterator[list[int]]:
    """Catches SIGINT and SIGTERM, and yields a list to which the number of each caught signal is appended.

    A second signal of the same kind is handled as it was before this context. Signals that are ignored remain ignored;
    a shell, for example, makes its background jobs ignore SIGINT.
    """
    caught: list[int] = []

    def collect(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(number, handlers[number])

    handlers: dict[int, Any] = {}
    for number in _signals_to_handle():
        handlers[number] = signal.signal(number, collect)
    try:
        yield caught
    finally:
        _set_handlers(handlers)


@contextlib.contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raises Interrupted on SIGINT and SIGTERM within the context. A second signal of a kind kills the process."""
    handlers = {number: signal.signal(number, _interrupt) for number in _signals_to_handle()}
    try:
        yield
    finally:
        _set_handlers(handlers)


@contextlib.contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Raises Interrupted on SIGTERM within the context, just as Python raises KeyboardInterrupt on SIGINT.

    A second SIGTERM kills the process. If a handler for SIGTERM has already been set, it is left in place.

    In a run with several processes, this function does nothing, so that the first SIGTERM kills the process, except
    while `collect_signals` is active in the training loop, where all processes can stop together.
    """
    handlers: dict[int, Any] = {}
    is_free = signal.SIGTERM in _signals_to_handle() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if is_free and os.environ.get("WORLD_SIZE", "1") == "1":
        handlers[signal.SIGTERM] = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        _set_handlers(handlers)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """Restores the default action of the signal, so that it kills the process next time, and raises Interrupted."""
    signal.signal(number, signal.SIG_DFL)
    raise Interrupted(number)


def _set_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _signals_to_handle() -> list[int]:
    """Returns SIGINT and SIGTERM, except those that are ignored.

    Outside the main thread, the list is empty, because Python allows signal handlers only in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
