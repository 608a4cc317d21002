"""Several processes: the results of one, in order; what becomes of them when one of either side ends."""

import operator
import os
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
def test_results_come_in_the_order_of_the_items_however_many_work(processes: int) -> None:
    assert list(map_in_order(partial(operator.mul, 3), range(50), processes)) == list(range(0, 150, 3))


def test_no_result_of_nothing() -> None:
    assert list(map_in_order(operator.neg, [], 2)) == []


def test_all_processes_work_and_none_is_left() -> None:
    before = children()
    made = set(map_in_order(eval, ["(__import__('time').sleep(0.2), __import__('os').getpid())[1]"] * 4, 2))
    assert len(made) == 2
    assert os.getpid() not in made
    assert children() == before


def test_an_item_ahead_is_read_and_no_more() -> None:
    read = count()
    with closing(map_in_order(operator.neg, (next(read) for _ in range(100)), 2)) as results:
        assert next(results) == 0
        assert next(read) == 3


def test_a_process_that_ends_is_an_error_with_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"ended early, .*; the same command resumes"):
        list(map_in_order(os._exit, [0] * 3, 2))


def test_an_error_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(partial(operator.truediv, 1), [1, 0, 1], 2))


def test_no_file_of_the_folder_at_hand_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pickle", "queue", "tokenize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    assert list(map_in_order(operator.neg, range(4), 2)) == [0, -1, -2, -3]


def test_who_is_left_alone_leaves_too() -> None:
    with subprocess.Popen([sys.executable, "-c", SLEEPING], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        workers = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        parent.send_signal(signal.SIGKILL)
    assert workers
    waiting = time.monotonic() + 20
    idle = [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    while len(idle) > 1 and time.monotonic() < waiting:  # one sleeps on
        time.sleep(0.05)
        idle = [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    for worker in idle:
        os.kill(int(worker), signal.SIGKILL)
    assert len(idle) <= 1
