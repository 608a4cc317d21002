"""Processes that train together on this machine, started by the command itself instead of by `torchrun`."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence

from transduce.runtime.signals import Interrupted

__all__ = ["local_processes"]

PATIENCE = 10  # seconds that the other processes have to end after the first
SIZE, STARTED_HERE = "WORLD_SIZE", "TRANSDUCE_PROCESSES"


@contextlib.contextmanager
def local_processes(count: int, command: Sequence[str]) -> Iterator[None]:
    """Starts `command` in `count - 1` more processes and makes this one the first; ends them with the context.

    They find each other as those of `torchrun` do. Does nothing for a count of 1 and in the processes that are started.
    Raises ValueError under `torchrun`, and RuntimeError where another process has died.
    """
    if count == 1 or STARTED_HERE in os.environ:
        yield
        return
    if SIZE in os.environ:
        raise ValueError("--processes: torchrun has started the processes; leave one of the two out")
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch does not list it

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {SIZE: str(count), "LOCAL_WORLD_SIZE": str(count), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    places = [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    started = {**os.environ, STARTED_HERE: str(count)}
    others = [subprocess.Popen(command, env=started | place) for place in places[1:]]
    os.environ |= places[0]
    try:
        yield
        _wait_for(others)
    except Interrupted:
        _wait_for(others)
        raise
    except RuntimeError as error:
        if died := [(rank, code) for rank, other in enumerate(others, 1) if (code := other.poll())]:
            rank, code = died[0]
            raise RuntimeError(
                f"process {rank} of the training ended with code {code}: start it again from the last checkpoint"
            ) from error
        raise
    finally:
        for other in others:
            other.kill()
            other.wait()
        for name in places[0]:
            del os.environ[name]


def _wait_for(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Waits until the processes have ended, `PATIENCE` seconds for each at most."""
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
