"""Rates and remaining times, by a fake clock."""

from types import SimpleNamespace

import pytest

from transduce.runtime import progress as rate_module
from transduce.runtime.progress import ProgressRate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    fake = SimpleNamespace(now=100.0)
    fake.monotonic = lambda: fake.now
    monkeypatch.setattr(rate_module, "time", fake)
    return fake


def test_units_of_an_earlier_call_do_not_count_for_the_rate(clock: SimpleNamespace) -> None:
    progress = ProgressRate(1000, 400)
    clock.now += 10
    progress.done += 100
    assert progress.rate == 10
    assert progress.time_left == ", 0:00:50 left"


@pytest.mark.parametrize(("total", "done"), [(None, 5), (10, 10), (10, 0)])
def test_an_unknown_time_is_empty(clock: SimpleNamespace, total: int | None, done: int) -> None:
    progress = ProgressRate(total)
    clock.now += 10
    progress.done = done
    assert not progress.time_left


def test_a_report_is_due_every_three_seconds(clock: SimpleNamespace) -> None:
    progress, is_due = ProgressRate(None), []
    for _ in range(7):
        clock.now += 1
        is_due.append(progress.is_report_due(3))
    assert is_due == [False, False, True, False, False, True, False]
