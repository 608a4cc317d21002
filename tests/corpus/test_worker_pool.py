"""The worker pool: results in order, errors, and the end of workers and of their parent."""

import operator
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from transduce.corpus.worker_pool import map_in_order

SLEEPING = """
import time
from transduce.corpus.worker_pool import map_in_order
for _ in map_in_order(time.sleep, [0.0, 0.0, 600.0], 2):
    print("begun", flush=True)
"""


def children() -> set[int]:
    return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))


@pytest.mark.parametrize("processes", [0, 1, 2, 3])
def test_results_come_in_the_order_of_the_items(processes: int) -> None:
    assert list(map_in_order(partial(operator.mul, 3), range(50), processes)) == list(range(0, 150, 3))


def test_no_items_give_no_results() -> None:
    assert list(map_in_order(operator.neg, [], 2)) == []


def test_all_workers_work_and_none_is_left() -> None:
    before = children()
    workers = set(map_in_order(eval, ["(__import__('time').sleep(0.2), __import__('os').getpid())[1]"] * 4, 2))
    assert len(workers) == 2
    assert os.getpid() not in workers
    assert children() == before


def test_a_function_that_cannot_be_pickled_starts_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker had been started before, and nobody ended it."""
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **options: pytest.fail("starts a worker"))
    with pytest.raises((AttributeError, pickle.PicklingError)):
        list(map_in_order(lambda item: item, range(3), 2))


def test_one_item_is_read_ahead() -> None:
    read = count()
    with closing(map_in_order(operator.neg, (next(read) for _ in range(100)), 2)) as results:
        assert next(results) == 0
        assert next(read) == 3


def test_a_worker_that_ends_early_raises_an_error_with_a_remedy() -> None:
    with pytest.raises(RuntimeError, match=r"ended early, .*; the same command resumes"):
        list(map_in_order(os._exit, [0] * 3, 2))


def test_an_error_of_the_function_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(partial(operator.truediv, 1), [1, 0, 1], 2))


def test_workers_import_nothing_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pickle", "queue", "tokenize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    assert list(map_in_order(operator.neg, range(4), 2)) == [0, -1, -2, -3]


def _runs(worker: str) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_end_with_a_killed_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPING], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        workers = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        parent.send_signal(signal.SIGKILL)
    assert workers
    deadline = time.monotonic() + 20
    alive = [worker for worker in workers if _runs(worker)]
    while len(alive) > 1 and time.monotonic() < deadline:  # the sleeping worker stays
        time.sleep(0.05)
        alive = [worker for worker in workers if _runs(worker)]
    for worker in alive:
        os.kill(int(worker), signal.SIGKILL)
    assert len(alive) <= 1
