"""Starts several training processes on this machine for `--processes`, without `torchrun`."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from transduce.runtime.signals import Interrupted

PATIENCE = 10  # after one process has ended, seconds within which the others must end as well
SIZE, STARTED_HERE = "WORLD_SIZE", "TRANSDUCE_FIRST_PROCESS"
STORE = "TRANSDUCE_PROCESS_STORE"  # environment variable with the file in which the processes exchange addresses

Processes = Sequence[subprocess.Popen[bytes]]


@contextlib.contextmanager
def local_processes(count: int, command: Sequence[str]) -> Iterator[None]:
    """Makes this process the first of `count` training processes within the context, and starts the others.

    The other `count` − 1 processes run `command`. When the context ends, they are killed unless they have ended by
    themselves. They also end if this process is killed. If one of them fails while this process is waiting for it, this
    process is ended as well. `command` calls this function again in the other processes, where it only makes sure that
    they end with the first process.

    The processes exchange their addresses in a file. The file is in a folder that no other user can open, because the
    processes unpickle the data that they receive from these addresses.

    Raises ValueError if the command was started by `torchrun`, and RuntimeError if another process was killed.
    """
    if parent := os.environ.get(STARTED_HERE):
        folder = str(Path(os.environ[STORE]).parent)
        threading.Thread(target=_end_with_parent, args=(int(parent), folder), daemon=True).start()
    if count == 1 or parent:
        yield
        return
    if SIZE in os.environ:
        raise ValueError("--processes: torchrun has started the processes; leave one of the two out")
    folder, ended = tempfile.mkdtemp(prefix="transduce-"), threading.Event()  # mkdtemp creates folders of mode 0700
    others: list[subprocess.Popen[bytes]] = []
    variables = process_variables(count, folder)
    try:
        started = {**os.environ, STARTED_HERE: str(os.getpid())}
        for own in variables[1:]:
            other = subprocess.Popen(command, env=started | own)
            others.append(other)  # appended at once, so that it is killed if the next process cannot be started
        os.environ |= variables[0]
        threading.Thread(target=_watch, args=(others, folder, ended), daemon=True).start()
        yield
        _wait_for(others)
    except Interrupted:
        _wait_for(others)
        raise
    except RuntimeError as error:
        for rank, code in _failures(others, wait=1):
            if code < 0:  # the process was killed; otherwise all processes have raised the same error
                raise RuntimeError(_message(rank, code)) from error
        raise
    finally:
        ended.set()
        _kill(others)
        shutil.rmtree(folder, ignore_errors=True)
        for name in variables[0]:
            os.environ.pop(name, None)


def process_variables(count: int, folder: str) -> list[dict[str, str]]:
    """Returns the environment variables for each of `count` processes; their store is a file in `folder`."""
    shared = {SIZE: str(count), "LOCAL_WORLD_SIZE": str(count), STORE: str(Path(folder, "store"))}
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _end_with_parent(parent: int, folder: str) -> None:
    """Ends this process as soon as its parent, the first process, has ended.

    Otherwise it would wait for its parent until a timeout of half an hour.
    """
    while os.getppid() == parent:
        time.sleep(0.5)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _watch(others: Processes, folder: str, ended: threading.Event) -> None:
    """Ends this process if another process has failed, but this one has not ended within `PATIENCE` seconds.

    Otherwise it would wait for the failed process until a timeout of half an hour. Files that have been saved are kept.
    """
    while not ended.wait(0.5):
        if failure := next(_failures(others), None):
            if ended.wait(PATIENCE):
                return
            _kill(others)
            shutil.rmtree(folder, ignore_errors=True)
            print(f"transduce: {_message(*failure)}", file=sys.stderr, flush=True)
            os._exit(1)


def _failures(others: Processes, wait: float = 0) -> Iterator[tuple[int, int]]:
    """Yields the rank and the exit code of each process that has failed.

    A negative code is the number of the signal that killed the process. A code of 128 or more means that the process
    shut down properly after a signal, which does not count as a failure.
    """
    for rank, other in enumerate(others, 1):
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = other.wait(wait)
            if code and code < 128:
                yield rank, code


def _message(rank: int, code: int) -> str:
    return f"process {rank} of the training ended with code {code}: start it again from the last checkpoint"


def _wait_for(processes: Processes) -> None:
    """Waits for the processes to end, up to `PATIENCE` seconds for each of them."""
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)


def _kill(processes: Processes) -> None:
    for process in processes:
        process.kill()
        process.wait()
