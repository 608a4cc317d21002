"""The records of the logger `transduce`, which tells what a run does, as a list of lines."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest


class Listener(logging.Handler):
    """Adds each message to a list, and calls a function with it."""

    def __init__(self, lines: list[str], react: Callable[[str], None]) -> None:
        super().__init__()
        self.lines, self.react = lines, react

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.react(self.lines[-1])


@contextmanager
def logged_lines(react: Callable[[str], None] = lambda line: None) -> Iterator[list[str]]:
    """Yields the list to which each message is added as it is logged; `react` is called with it as well.

    pytest's `caplog` hears nothing after a test of the command line, whose handler shows the records on standard error.
    That handler is set aside meanwhile.
    """
    lines: list[str] = []
    logger = logging.getLogger("transduce")
    level, handlers = logger.level, logger.handlers[:]
    logger.setLevel(logging.INFO)
    outer = [handler for handler in handlers if isinstance(handler, Listener)]
    logger.handlers[:] = [*outer, Listener(lines, react)]
    try:
        yield lines
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)


@pytest.fixture
def log_lines() -> Iterator[list[str]]:
    """The lines that a test has logged so far."""
    with logged_lines() as lines:
        yield lines
