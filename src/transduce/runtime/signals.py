"""SIGINT and SIGTERM: end the work immediately, or save it and end after the current step."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Interrupted(BaseException):
    """Raised when signal `number` ends the work. Like KeyboardInterrupt, it is not an Exception."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class StoppedTogether(Interrupted):
    """Raised in all processes of a run, after the same step."""


class OtherProcessError(Exception):
    """Raised if another process of the run has failed; that process reports the reason."""


@contextlib.contextmanager
def collect_signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM in the list that it yields; a second signal has its usual effect.

    Ignored signals stay ignored: a shell makes its background jobs ignore SIGINT.
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
    """Raises Interrupted on SIGINT and SIGTERM within the context; a second signal kills the process."""
    handlers = {number: signal.signal(number, _interrupt) for number in _signals_to_handle()}
    try:
        yield
    finally:
        _set_handlers(handlers)


@contextlib.contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Raises Interrupted on SIGTERM within the context, just as Python raises KeyboardInterrupt on SIGINT.

    A second SIGTERM kills the process. A handler that was set before stays. If the run has several processes, the first
    SIGTERM kills this one unless training is at a step, because only there can all processes stop together.
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
    """Raises Interrupted; from now on the same signal kills the process."""
    signal.signal(number, signal.SIG_DFL)
    raise Interrupted(number)


def _set_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _signals_to_handle() -> list[int]:
    """SIGINT and SIGTERM, except ignored ones.

    Returns no signals outside the main thread, because Python cannot set handlers there.
    """
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
