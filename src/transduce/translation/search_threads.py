"""Searches of one batch in several threads, each with a share of the sentences."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from transduce.search import SearchStoppedError, StopCheck

__all__ = ["map_in_threads"]

Result = TypeVar("Result")


def map_in_threads(
    work: Callable[[Sequence[int], StopCheck], list[Result]], numbers: Sequence[int], threads: int
) -> list[Result]:
    """Returns the results of `work` for the numbers, in order; each thread works on every `threads`-th number.

    `work` calls the check that it is given once a step. Raises the first exception of a thread, or the interruption of
    the caller, after the other threads have stopped at a check.
    """
    threads, stop = min(threads, len(numbers)), threading.Event()

    def check() -> None:
        if stop.is_set():
            raise SearchStoppedError("the searches beside it were stopped")

    if threads < 2:
        return work(numbers, check)
    with ThreadPoolExecutor(threads) as pool:
        shares = [pool.submit(work, numbers[first::threads], check) for first in range(threads)]
        try:
            results = [share.result() for share in shares]
        except BaseException:
            stop.set()
            raise
    return [results[place % threads][place // threads] for place in range(len(numbers))]
