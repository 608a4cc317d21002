"""Searches one batch in several threads, each with a share of the sentences."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import chain, pairwise
from operator import itemgetter
from typing import TypeVar

from transduce.search.cancellation import SearchStoppedError, StopCheck

Result = TypeVar("Result")

CACHED_TOKENS = 2048  # source positions whose keys and values fit into a processor's cache


def map_in_threads(
    work: Callable[[Sequence[int], StopCheck], list[Result]],
    numbers: Sequence[int],
    threads: int,
    tokens: int,
    check: StopCheck,
) -> list[Result]:
    """Returns the results of `work` for the numbers, in order; `tokens` is the sum of their source positions.

    Adjacent numbers, whose sentences have similar lengths, form groups of about `CACHED_TOKENS` positions per thread;
    with n threads, each thread searches every n-th number of a group. `work` gets these numbers and a function to call
    between steps, which calls `check`. Raises the first exception of any share, or the interruption of the caller,
    after the other threads have stopped at a check.
    """
    threads, stop = max(1, min(threads, len(numbers))), threading.Event()

    def check_all() -> None:
        if stop.is_set():
            raise SearchStoppedError("the searches beside it were stopped")
        check()

    groups = max(1, -(-tokens // (CACHED_TOKENS * threads)))
    bounds = [len(numbers) * group // groups for group in range(groups + 1)]
    parts = [range(begin + thread, end, threads) for begin, end in pairwise(bounds) for thread in range(threads)]
    parts = [part for part in parts if part]
    shares = [[numbers[place] for place in part] for part in parts]
    if threads == 1:
        results = [work(share, check_all) for share in shares]
    else:
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(work, share, check_all) for share in shares]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in filter(Future.done, futures):
                    future.result()
                results = [future.result() for future in futures]
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    ordered = sorted(zip(chain(*parts), chain(*results), strict=True), key=itemgetter(0))
    return [result for _, result in ordered]
