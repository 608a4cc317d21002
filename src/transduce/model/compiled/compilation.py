"""Compilation by numba, and the message that announces it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit

MESSAGE = "compiling for this processor: half a minute, at the first use on a machine only"
PATIENCE = 2.0  # seconds; loading compiled code takes less

# Infinity and NaN do not occur. Only sums, which are functions of their own, may be reordered, so that they are
# vectorised: with other code reordered, code just compiled and code from the cache differ in their last bits.
_FINITE = {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}
inlined = njit(fastmath=_FINITE, error_model="numpy", inline="always")
summed = njit(fastmath=_FINITE | {"reassoc"}, error_model="numpy", nogil=True)
compiled = njit(fastmath=_FINITE, error_model="numpy", nogil=True)
exact = njit(error_model="numpy", nogil=True)  # for numbers that may be infinite


def cached(function: Any) -> Any:
    """Compiles a function at its first call with arguments of other types, or loads it from numba's cache.

    Only functions that Python calls are cached; each contains the code of those that it calls.
    """
    return _cached(function, _FINITE)


def cached_exact(function: Any) -> Any:
    """Compiles or loads a function as `cached`, for numbers that may be infinite."""
    return _cached(function, set())


def _cached(function: Any, fastmath: set[str]) -> Any:
    options: dict[str, Any] = {"fastmath": fastmath, "error_model": "numpy", "nogil": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # there is no folder for the cache
        return njit(**options)(function)


@contextmanager
def report_compilation(report: Callable[[str], None]) -> Iterator[None]:
    """Calls `report` with `MESSAGE` where the block takes longer than `PATIENCE`."""
    timer = threading.Timer(PATIENCE, report, [MESSAGE])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
