"""Work side by side: in order, elsewhere, and with an end that is told."""

import os
import signal
import sys

import pytest

from transduce.processes import side_by_side
from transduce.translator import Translator

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")


@linux
def test_results_come_in_order_and_from_other_processes():
    found = list(side_by_side(lambda task: (task, os.getpid()), range(12), 3))
    assert [task for task, _ in found] == list(range(12))
    assert os.getpid() not in {process for _, process in found}
    assert len({process for _, process in found}) <= 3


@pytest.mark.parametrize(("tasks", "workers"), [(1, 2), (2, 3), (5, 1)])
def test_what_does_not_keep_every_worker_busy_is_done_here(tasks, workers):
    assert set(side_by_side(lambda _: os.getpid(), range(tasks), workers)) == {os.getpid()}


@linux
def test_an_error_comes_back():
    def work(task):
        raise KeyError(f"task {task}")

    with pytest.raises(KeyError, match="task 0"):
        list(side_by_side(work, range(4), 2))


@linux
def test_a_process_that_the_system_ends_is_no_endless_wait():
    def work(task):
        if task == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    with pytest.raises(ValueError, match="want of memory"):
        list(side_by_side(work, range(4), 2))


@linux
def test_translations_are_those_of_one_process(trained, micro, monkeypatch):
    monkeypatch.setattr("transduce.translator.LEAST_SHARE", 64)
    lines = (micro / "validation.en").read_text().split("\n")
    alone, together = Translator.load(trained), Translator.load(trained, workers=2)
    monkeypatch.setattr(Translator, "_solve", _told(Translator._solve))
    expected = alone.translate(lines)
    found = together.translate(lines)
    assert [best[0].text for best in found] == [best[0].text for best in expected]
    assert {best[0].score < 0 for best in found} == {True, False}, "the empty last line has a score of 0"


def _told(solve):
    def told(self, batch, method):
        assert (self.workers > 1) == (os.getppid() == PARENT)
        return solve(self, batch, method)

    return told


PARENT = os.getpid()
