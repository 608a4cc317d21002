"""A batch in parts, for caches, and in threads: the same results in order, and one stop for all."""

import threading
import time

import pytest

from transduce.search.cancellation import SearchStoppedError
from transduce.translation.engine import TorchEngine
from transduce.translation.search_threads import CACHED_TOKENS, map_in_threads
from transduce.translation.translator import Translator


def never() -> None:
    """A check that stops no search."""


@pytest.mark.parametrize(
    ("count", "threads", "tokens", "calls"),
    [(7, 1, 2048, 1), (7, 1, 4097, 3), (7, 2, 2048, 2), (7, 2, 4097, 4), (2, 4, 9, 2), (2, 1, 20000, 2), (0, 2, 0, 0)],
)
def test_results_are_in_order(count, threads, tokens, calls):
    shares, numbers = [], range(10, 10 + count)

    def work(share, check):
        check()
        shares.append(list(share))
        return [-number for number in share]

    assert map_in_threads(work, numbers, threads, tokens, never) == [-number for number in numbers]
    assert len(shares) == calls
    assert sorted(number for share in shares for number in share) == list(numbers)


def test_sentences_of_a_part_are_near_each_other_and_threads_share_each_group():
    """The numbers of a batch are in the order of the lengths of their sentences."""
    shares = []
    work = lambda share, check: shares.append(list(share)) or [None for _ in share]  # noqa: E731
    map_in_threads(work, range(8), 1, 2 * CACHED_TOKENS, never)
    map_in_threads(work, range(8), 2, 4 * CACHED_TOKENS, never)
    assert shares[:2] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert sorted(shares[2:]) == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_a_failure_stops_the_other_threads_and_begins_no_more_parts():
    began, stopped = threading.Event(), []

    def work(share, check):
        if share[0] == 0:
            began.wait(10)
            raise ValueError("faulty")
        began.set()
        try:
            while True:
                check()
        except SearchStoppedError:
            stopped.append(share[0])
            raise

    with pytest.raises(ValueError, match="faulty"):
        map_in_threads(work, range(8), 2, 8 * CACHED_TOKENS, never)
    assert set(stopped) <= {1, 2}, "the thread that failed may have begun the third part before all were stopped"
    assert 1 in stopped


def test_the_check_of_the_caller_stops_a_thread():
    calls = []

    def refuse_the_third():
        calls.append(len(calls))
        if len(calls) == 3:
            raise SearchStoppedError("the client has left")

    def work(share, check):
        while True:
            check()

    with pytest.raises(SearchStoppedError, match=r"the client has left|were stopped"):
        map_in_threads(work, range(4), 2, 0, refuse_the_third)
    assert len(calls) >= 3


def test_a_failure_stops_the_thread_before_it_too():
    def work(share, check):
        if share[0] == 1:
            raise ValueError("faulty")
        for _ in range(100):  # ten seconds, unless it is stopped
            check()
            time.sleep(0.1)
        return list(share)

    begun = time.monotonic()
    with pytest.raises(ValueError, match="faulty"):
        map_in_threads(work, range(4), 2, 0, never)
    assert time.monotonic() - begun < 5


def test_a_batch_that_no_cache_holds_is_searched_in_parts(fluent, monkeypatch):
    translator, sizes = Translator.load(fluent), []
    lines = ["the owl saw a mole", "cat dog"] * 40
    search = TorchEngine._search_share
    monkeypatch.setattr(
        TorchEngine,
        "_search_share",
        lambda self, stepper, compiled, batch, method: (
            sizes.append(len(batch.sources)) or search(self, stepper, compiled, batch, method)
        ),
    )
    expected = translator.translate_lines(lines)
    assert sizes == [80]
    monkeypatch.setattr("transduce.translation.search_threads.CACHED_TOKENS", CACHED_TOKENS // 16)
    assert translator.translate_lines(lines) == expected
    assert len(sizes) > 3
    assert max(sizes[1:]) - min(sizes[1:]) <= 1
