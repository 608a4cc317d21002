"""The records of the logger `transduce`, which tells what a run does, as a list of lines."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def logged_lines(react: Callable[[str], None] = lambda line: None) -> Iterator[list[str]]:
    """Yields the list to which each message is added as it is logged; `react` is called with it as well.

    pytest's `caplog` hears nothing after a test of the command line, whose handler shows the records on standard error.
    That handler is set aside meanwhile.
    """
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            react(lines[-1])

    logger, listener = logging.getLogger("transduce"), Listener()
    level, handlers = logger.level, logger.handlers[:]
    logger.setLevel(logging.INFO)
    logger.handlers[:] = [listener]
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
