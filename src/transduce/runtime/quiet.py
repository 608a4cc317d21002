"""`quiet`: a context without the lines of progress that the logger `transduce` gets otherwise; warnings stay."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Logs nothing below a warning within the context."""
    logger = logging.getLogger("transduce")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)
