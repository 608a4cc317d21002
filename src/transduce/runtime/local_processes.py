"""Processes that train together on this machine, started by the command itself instead of by `torchrun`."""

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

PATIENCE = 10  # seconds in which processes must end after another process has ended
SIZE, STARTED_HERE = "WORLD_SIZE", "TRANSDUCE_FIRST_PROCESS"
STORE = "TRANSDUCE_PROCESS_STORE"  # the file by which the processes exchange their addresses

Processes = Sequence[subprocess.Popen[bytes]]


@contextlib.contextmanager
def local_processes(count: int, command: Sequence[str]) -> Iterator[None]:
    """Starts `command` in `count - 1` more processes and makes this process the first; ends them with the context.

    The processes find each other through a file in a folder that no other user can open, because they unpickle data
    from the addresses in it. A count of 1 starts no process. The started processes end with the first one. Raises
    ValueError under `torchrun`, and RuntimeError if another process was killed. Ends this process if it waits for a
    process that has failed.
    """
    if parent := os.environ.get(STARTED_HERE):
        folder = str(Path(os.environ[STORE]).parent)
        threading.Thread(target=_end_with_parent, args=(int(parent), folder), daemon=True).start()
    if count == 1 or parent:
        yield
        return
    if SIZE in os.environ:
        raise ValueError("--processes: torchrun has started the processes; leave one of the two out")
    folder, ended = tempfile.mkdtemp(prefix="transduce-"), threading.Event()  # of mode 0700
    others: list[subprocess.Popen[bytes]] = []
    variables = process_variables(count, folder)
    try:
        started = {**os.environ, STARTED_HERE: str(os.getpid())}
        for own in variables[1:]:
            other = subprocess.Popen(command, env=started | own)
            others.append(other)  # now, so that this process is ended if the next one cannot be started
        os.environ |= variables[0]
        threading.Thread(target=_watch, args=(others, folder, ended), daemon=True).start()
        yield
        _wait_for(others)
    except Interrupted:
        _wait_for(others)
        raise
    except RuntimeError as error:
        for rank, code in _failures(others, wait=1):
            if code < 0:  # otherwise all processes have the same error
                raise RuntimeError(_message(rank, code)) from error
        raise
    finally:
        ended.set()
        _kill(others)
        shutil.rmtree(folder, ignore_errors=True)
        for name in variables[0]:
            os.environ.pop(name, None)


def process_variables(count: int, folder: str) -> list[dict[str, str]]:
    """Environment variables of each process; the store is a file in `folder`."""
    shared = {SIZE: str(count), "LOCAL_WORLD_SIZE": str(count), STORE: str(Path(folder, "store"))}
    return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def _end_with_parent(parent: int, folder: str) -> None:
    """Ends this process when its parent, the first process, was killed; otherwise it would wait for half an hour."""
    while os.getppid() == parent:
        time.sleep(0.5)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _watch(others: Processes, folder: str, ended: threading.Event) -> None:
    """Ends this process if another has failed and this one continues; otherwise it would wait for half an hour.

    Everything saved so far stays.
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
    """Yields rank and exit code of each process that has failed; a negative code is the signal that killed the process.

    A code of 128 or more means that the process ended in an orderly way after a signal, and does not count as a
    failure.
    """
    for rank, other in enumerate(others, 1):
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = other.wait(wait)
            if code and code < 128:
                yield rank, code


def _message(rank: int, code: int) -> str:
    return f"process {rank} of the training ended with code {code}: start it again from the last checkpoint"


def _wait_for(processes: Processes) -> None:
    """Waits until the processes have ended, at most `PATIENCE` seconds for each."""
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)


def _kill(processes: Processes) -> None:
    for process in processes:
        process.kill()
        process.wait()
