"""Nothing that transduce starts can be reached from another machine, unless a user asks for it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from listening import listening_addresses, process_tree, reachable_addresses, with_named_address

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

POOL = """
import time
from transduce.corpus.worker_pool import map_in_order
results = map_in_order(abs, range(-9, 0), 2)
next(results)
print("ready", flush=True)
time.sleep(600)
"""


@contextmanager
def started(command: list[str], line: str, folder: Path) -> Iterator[int]:
    """Starts a command and yields its process once it has printed a line that begins with `line`.

    The command has its temporary files in `folder`, because it ends by SIGKILL.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [*with_named_address(), *command]
    with subprocess.Popen(command, env=environment, **streams) as process:
        try:
            printed = []
            for printed_line in process.stdout:
                printed.append(printed_line)
                if printed_line.startswith(line):
                    break
            else:
                raise AssertionError("".join(printed))
            yield process.pid
        finally:
            for member in process_tree(process.pid):  # those of torchrun are in process groups of their own
                os.kill(member, signal.SIGKILL)


def transduce(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "transduce", *map(str, arguments)]


@pytest.mark.slow
def test_processes_of_a_run_listen_on_loopback_alone(micro, tmp_path):
    """They unpickle what comes from the addresses in their store: whoever reaches both can run code here."""
    changes = ["--set=training.steps=2000", "--set=training.validate_every=null", "--set=training.save_every=2000"]
    arguments = ["train", micro / "recipe.yaml", "--out", tmp_path / "run", "--device=cpu", "--threads=1"]
    with started(transduce(*arguments, "--processes=2", *changes), "step 4/", tmp_path) as process:
        assert listening_addresses(process), "the processes do not listen, or the test does not see it"
        assert reachable_addresses(process) == []


@pytest.mark.slow
def test_processes_of_torchrun_on_one_machine_exchange_pickles_on_loopback_alone(micro, tmp_path):
    """Only the store of `torchrun` itself, in its own process, listens at every address."""
    changes = ["--set=training.steps=2000", "--set=training.validate_every=null", "--set=training.save_every=2000"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "transduce"]
    arguments = ["train", str(micro / "recipe.yaml"), "--out", str(tmp_path / "run"), "--device=cpu", *changes]
    with started([*torchrun, *arguments], "step 4/", tmp_path) as process:
        assert listening_addresses(process), "the processes do not listen, or the test does not see it"
        assert {*reachable_addresses(process)} <= {"::"}


RANKS = """
import os, subprocess, sys
shared = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": sys.argv[1], "MASTER_PORT": sys.argv[2]}
command = [sys.executable, "-m", "transduce", *sys.argv[3:]]
for process in [subprocess.Popen(command, env={**shared, "RANK": rank}) for rank in "01"]:
    process.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("address", ["127.0.0.1", "localhost"])
def test_processes_of_srun_or_mpirun_on_one_machine_exchange_pickles_on_loopback_alone(micro, tmp_path, address):
    """They have no LOCAL_WORLD_SIZE. Only the store of the first process listens at every address, at its own port."""
    changes = ["--set=training.steps=2000", "--set=training.validate_every=null", "--set=training.save_every=2000"]
    arguments = ["train", str(micro / "recipe.yaml"), "--out", str(tmp_path / "run"), "--device=cpu", "--threads=1"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-c", RANKS, address, port, *arguments, *changes]
    with started(command, "step 4/", tmp_path) as process:
        assert listening_addresses(process), "the processes do not listen, or the test does not see it"
        assert {*reachable_addresses(process)} <= {"::"}


@pytest.mark.slow
def test_a_server_listens_on_loopback_alone(fluent, tmp_path):
    with started(transduce("serve", fluent, "--port=0"), "serving", tmp_path) as process:
        assert listening_addresses(process) == ["127.0.0.1"]


def test_workers_listen_nowhere(tmp_path):
    with started([sys.executable, "-c", POOL], "ready", tmp_path) as process:
        assert listening_addresses(process) == []
