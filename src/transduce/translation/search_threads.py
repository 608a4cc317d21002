"""Searches of one batch in several threads, each with a share of the sentences."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_in_threads"]

Result = TypeVar("Result")


def map_in_threads(work: Callable[[Sequence[int]], list[Result]], numbers: Sequence[int], threads: int) -> list[Result]:
    """Returns the results of `work` for the numbers, in order; each thread works on every `threads`-th number.

    Raises the first exception of a thread, after all have ended.
    """
    threads = min(threads, len(numbers))
    if threads < 2:
        return work(numbers)
    with ThreadPoolExecutor(threads) as pool:
        shares = list(pool.map(work, [numbers[first::threads] for first in range(threads)]))
    return [shares[place % threads][place // threads] for place in range(len(numbers))]
