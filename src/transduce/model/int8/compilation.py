"""Compilation of the int8 kernels by numba, and the message that announces it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit

MESSAGE = "compiling the int8 kernels: about ten seconds, at the first use on a machine only"

_reports: list[Callable[[str], None]] = []


@contextmanager
def report_compilation(report: Callable[[str], None]) -> Iterator[None]:
    """Calls `report` with `MESSAGE` at the first kernel in this context that is not in numba's cache."""
    _reports.append(report)
    try:
        yield
    finally:
        if report in _reports:
            _reports.remove(report)


def compile_kernel(function: Any, signature: str, options: dict[str, Any]) -> Any:
    """Compiles `function` for the types of `signature`, or loads it from numba's cache, and returns the kernel."""
    try:
        kernel = njit(signature, cache=True, **options)(function)
    except Exception:  # the cache cannot be written, is full, or is damaged
        kernel = njit(signature, **options)(function)
    if _reports and (not kernel.stats.cache_path or kernel.stats.cache_misses):
        _reports.pop()(MESSAGE)
    return kernel
