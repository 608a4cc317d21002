"""One function applied to many items by several processes at a time, in the order of the items.

Each is an interpreter of its own, spoken to through pipes: it imports what the function needs and nothing of the
program at work, no signal of a terminal reaches it, and when this process is gone, in whatever way, it leaves too
(docs/decisions/0016).
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

__all__ = ["map_in_order"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# The library of the subwords, too, works on the one core that a process is for.
ALONE = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def map_in_order(
    work: Callable[[Item], Result], items: Iterable[Item], processes: int
) -> Generator[Result, None, None]:
    """What `work` makes of each item, by so many processes; by this one where one is enough.

    `work` and the items can be pickled; its errors are raised here. A `RuntimeError` where a process has ended before
    its work.
    """
    if processes < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(processes) as pool, ExitStack() as stack:
        free: SimpleQueue[_Process[Item, Result]] = SimpleQueue()
        for _ in range(processes):
            free.put(stack.enter_context(_Process(work)))

        def done(item: Item) -> Result:
            process = free.get()
            try:
                return process(item)
            finally:
                free.put(process)

        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(done, item))
            if len(waiting) > processes:  # one more than are at work, so that none waits for what comes next
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


class _Process(Generic[Item, Result]):
    """An interpreter that applies `work` to what it is sent."""

    def __init__(self, work: Callable[[Item], Result]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import _answer; _answer()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ALONE},
            process_group=0,
        )
        self._work = pickle.dumps(work)

    def __call__(self, item: Item) -> Result:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(self._work)
            self._work = b""
            pickle.dump(item, self._process.stdin)
            self._process.stdin.flush()
            result, error = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise RuntimeError(
                "one of several processes has ended before its work, perhaps for want of memory; "
                "the same command goes on from what is written"
            ) from None
        if error is not None:
            raise error
        made: Result = result
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _answer() -> None:
    """Reads a function and items, writes what it makes of each, until there is no more to read."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody is left to be told that the results are wanted no more
    items, results = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(EOFError):
        work = pickle.load(items)
        while True:
            pickle.dump(_tried(work, pickle.load(items)), results)
            results.flush()


def _tried(work: Callable[[Item], Result], item: Item) -> tuple[Result | None, Exception | None]:
    """What `work` makes of an item, or the error that it ends with."""
    try:
        return work(item), None
    except Exception as error:
        return None, error
