"""Applies a function to many items in several processes, and returns the results in the order of the items.

Each worker is a fresh interpreter that communicates with this process through pipes. It imports only the modules that
the function needs, and not the main module. It does not receive signals from a terminal, and it exits when this process
ends, even if this process is killed (docs/decisions/0016).
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

Item = TypeVar("Item")
Result = TypeVar("Result")

# Limits each worker to one core. By default its libraries, including the subword library, would use all cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int
) -> Generator[Result, None, None]:
    """Yields `function(item)` for each item, computed by `processes` worker processes.

    If `processes` is less than 2, the results are computed in this process. `function`, the items and the results must
    be picklable. Raises the errors that `function` raises, and RuntimeError if a worker process ends early.
    """
    if processes < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(processes) as pool, ExitStack() as stack:
        idle: SimpleQueue[_Worker[Item, Result]] = SimpleQueue()
        for _ in range(processes):
            idle.put(stack.enter_context(_Worker(function)))

        def compute(item: Item) -> Result:
            worker = idle.get()
            try:
                return worker(item)
            finally:
                idle.put(worker)

        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(compute, item))
            if len(pending) > processes:  # one item more than workers, so that no worker is idle
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


class _Worker(Generic[Item, Result]):
    """A subprocess that applies `function` to each item that it receives."""

    def __init__(self, function: Callable[[Item], Result]) -> None:
        self._unsent = pickle.dumps(function)  # first, because an error here would leave a process running
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import _serve; _serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            # Ctrl-C in a terminal is sent to a whole process group, so each worker gets a group of its own. The option
            # for this differs between operating systems.
            process_group=0,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )

    def __call__(self, item: Item) -> Result:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(self._unsent)
            self._unsent = b""
            pickle.dump(item, self._process.stdin)
            self._process.stdin.flush()
            result, error = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise RuntimeError(
                "a worker process ended early, perhaps because memory ran out; "
                "the same command resumes from the pairs already written"
            ) from None
        if error is not None:
            raise error
        computed: Result = result
        return computed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def _serve() -> None:
    """Runs in a worker: reads a function and items from standard input, and writes a result or an error for each item.

    Returns when the input ends.
    """
    if hasattr(signal, "SIGPIPE"):  # not on Windows
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # exits without a traceback if nobody reads the results
    items, results = sys.stdin.buffer, sys.stdout.buffer
    with contextlib.suppress(EOFError):
        function = pickle.load(items)
        while True:
            item = pickle.load(items)
            try:
                result, error = function(item), None
            except Exception as raised:
                result, error = None, raised
            pickle.dump((result, error), results)
            results.flush()
