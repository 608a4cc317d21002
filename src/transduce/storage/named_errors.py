"""Errors of the operating system that name the file: those of writing, such as of a full disk, name none."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def name_in_errors(path: Path | str) -> Iterator[None]:
    """Adds `path` to an OSError without a file name that is raised within the context."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
