"""Work side by side in processes: on a CPU several searches of one thread each beat one search with all threads."""

import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

import torch

__all__ = ["side_by_side"]

Task = TypeVar("Task")
Result = TypeVar("Result")

# What forked processes find in their memory, so that neither models nor tasks have to be sent to them.
_inherited: tuple[Callable[[Any], Any], Sequence[Any]] | None = None


def side_by_side(work: Callable[[Task], Result], tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """`work` of each task, in their order, by as many processes of one thread each.

    In this process instead, with all its threads, where there are fewer tasks than workers, and where the system has no
    safe fork. Raises what `work` raises, and a `ValueError` where the system ends a process.
    """
    if not 1 < workers <= len(tasks) or sys.platform != "linux":
        yield from map(work, tasks)
        return
    global _inherited
    _inherited = (work, tasks)
    pool = ProcessPoolExecutor(workers, get_context("fork"), _begin)
    try:
        with warnings.catch_warnings():
            # Of forking beside threads: torch's hold no lock between two calls, and a child begins none of its own.
            warnings.simplefilter("ignore", DeprecationWarning)
            futures = [pool.submit(_do, number) for number in range(len(tasks))]
        for future in futures:
            yield future.result()
    except BrokenProcessPool:
        raise ValueError(
            "the system ended a process that was at work, most often for want of memory: use fewer --threads, or "
            "smaller --batch-tokens"
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        _inherited = None


def _begin() -> None:
    """A worker leaves an interrupt from the keyboard to its parent. The threads of OpenMP do not survive a fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _do(number: int) -> Any:
    """One task of those that were inherited."""
    assert _inherited is not None
    work, tasks = _inherited
    return work(tasks[number])
