"""Rates and times left, by a clock of the test's own."""

from types import SimpleNamespace

import pytest

from transduce.runtime import rate as pace
from transduce.runtime.rate import ProgressRate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now=100.0)
    made.monotonic = lambda: made.now
    monkeypatch.setattr(pace, "time", made)
    return made


def test_what_was_done_before_is_not_counted_as_fast(clock: SimpleNamespace) -> None:
    going = ProgressRate(1000, 400)
    clock.now += 10
    going.done += 100
    assert going.rate == 10
    assert going.left == ", 0:00:50 left"


@pytest.mark.parametrize(("total", "done"), [(None, 5), (10, 10), (10, 0)])
def test_where_nobody_knows_no_time_is_told(clock: SimpleNamespace, total: int | None, done: int) -> None:
    going = ProgressRate(total)
    clock.now += 10
    going.done = done
    assert not going.left


def test_a_word_is_due_every_so_often(clock: SimpleNamespace) -> None:
    going, told = ProgressRate(None), []
    for _ in range(7):
        clock.now += 1
        told.append(going.told(3))
    assert told == [False, False, True, False, False, True, False]
