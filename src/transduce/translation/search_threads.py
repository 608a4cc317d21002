"""Runs the search of one batch in several threads, which divide the sentences among them."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import chain, pairwise
from operator import itemgetter
from typing import TypeVar

from transduce.search.cancellation import SearchStoppedError, StopCheck

Result = TypeVar("Result")

CACHED_TOKENS = 2048  # source positions whose keys and values fit in a processor's cache


def map_in_threads(
    work: Callable[[Sequence[int], StopCheck], list[Result]],
    numbers: Sequence[int],
    threads: int,
    tokens: int,
    check: StopCheck,
) -> list[Result]:
    """Applies `work` to `numbers` in several threads and returns the results in the order of `numbers`.

    `numbers` are the indices of sentences, and `tokens` is the total number of their source positions. Adjacent
    sentences, whose lengths are similar, form groups with about `CACHED_TOKENS` source positions per thread. If there
    are n threads, each of them searches every n-th sentence of a group. `work` receives the indices of these sentences
    and a function that calls `check`, and has to call this function between the steps of the search.

    If a thread raises an exception, or if the caller is interrupted, the other threads are stopped at their next check,
    and then the exception is raised.
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
