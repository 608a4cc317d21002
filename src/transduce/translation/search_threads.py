"""Searches of one batch in several threads, each with a share of the sentences."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from transduce.search import SearchStoppedError, StopCheck

__all__ = ["map_in_threads"]

Result = TypeVar("Result")

CACHED_TOKENS = 2048  # source positions of a search whose keys and values a processor's cache holds


def map_in_threads(
    work: Callable[[Sequence[int], StopCheck], list[Result]], numbers: Sequence[int], threads: int, tokens: int = 0
) -> list[Result]:
    """Returns the results of `work` for the numbers, in order; `tokens` is the sum of their source positions.

    The numbers are divided into equally many parts a thread, of about `CACHED_TOKENS` positions at most; of n parts
    each has every n-th number. `work` gets a part, and a check that it calls once a step. Raises the first exception
    of a part, or the interruption of the caller, after the other threads have stopped at a check.
    """
    threads, stop = min(threads, len(numbers)), threading.Event()

    def check() -> None:
        if stop.is_set():
            raise SearchStoppedError("the searches beside it were stopped")

    count = min(len(numbers), max(1, -(-tokens // (CACHED_TOKENS * max(1, threads)))) * threads)
    shares = [numbers[first::count] for first in range(count)]
    if threads < 2:
        results = [work(share, check) for share in shares]
    else:
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(work, share, check) for share in shares]
            try:
                results = [future.result() for future in futures]
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return [results[place % count][place // count] for place in range(len(numbers))]
