"""`--processes` starts the processes of a training and ends them."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from micro_run import forked_together
from transduce.runtime import local_processes as local_processes_module
from transduce.runtime.distributed import share_of_cores
from transduce.runtime.local_processes import local_processes
from transduce.runtime.signals import Interrupted

OTHER = [sys.executable, "-c", "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"]


@pytest.fixture
def variables():
    """The variables that are set meanwhile, which must be gone afterwards."""
    yield
    assert not {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "TRANSDUCE_PROCESS_STORE"} & {*os.environ}


def running(path):
    """Waits until the other process has written its number into `path`; returns the number."""
    while not path.exists() or not path.read_text():
        time.sleep(0.01)
    return int(path.read_text())


def end_with(error, path, other=(), kill=False):
    """Raises `error` while another process runs, which writes its number into `path` and may have ended before."""
    with local_processes(2, other or [*OTHER, str(path)]):
        if other:
            time.sleep(0.5)
        elif (number := running(path)) and kill:
            os.kill(number, signal.SIGKILL)
        raise error


def train_command(micro, out):
    changes = ["--set=training.micro_batches=2", "--processes=2", "--threads=1"]
    arguments = ["train", str(micro / "recipe.yaml"), "--out", str(out), "--device", "cpu", *changes]
    return [sys.executable, "-m", "transduce", *arguments]


@pytest.fixture(scope="module")
def expected(micro):
    """The weights of the training in two processes that are started otherwise."""
    out = micro / "started-otherwise"
    changes = "--device=cpu", "--set=training.micro_batches=2"
    assert forked_together(2, "train", micro / "recipe.yaml", "--out", out, *changes).code == 0
    return (out / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_the_training_is_that_of_processes_started_otherwise(micro, expected, tmp_path):
    ended = subprocess.run(train_command(micro, tmp_path / "run"), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("12 steps are done") == 1
    assert ended.stderr.count("step 12/12") == 1
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_and_the_same_command_goes_on(micro, expected, tmp_path):
    again = train_command(micro, tmp_path / "run")
    with subprocess.Popen(again, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        for line in process.stderr:
            if line.startswith("step 6/12"):
                os.killpg(process.pid, signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 128 + signal.SIGINT, rest
    assert rest.count("the same command goes on from there") == 1
    assert subprocess.run(again).returncode == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected


@pytest.mark.parametrize("error", [ValueError("faulty"), OSError("full"), KeyboardInterrupt()])
def test_an_error_ends_the_other_process(variables, tmp_path, error):
    with pytest.raises(type(error)) as raised:
        end_with(error, tmp_path / "number")
    assert raised.value is error
    assert_ended(tmp_path / "number")


def test_a_process_that_goes_on_after_a_signal_is_ended(variables, tmp_path, monkeypatch):
    monkeypatch.setattr("transduce.runtime.local_processes.PATIENCE", 0.2)
    with pytest.raises(Interrupted):
        end_with(Interrupted(signal.SIGTERM), tmp_path / "number")
    assert_ended(tmp_path / "number")


def assert_ended(path):
    with pytest.raises(ProcessLookupError):
        os.kill(running(path), 0)


def test_the_death_of_another_process_has_a_message(variables, tmp_path):
    """What this process notices is a closed connection."""
    message = "process 1 of the training ended with code -9: start it again from the last checkpoint"
    with pytest.raises(RuntimeError, match=message):
        end_with(RuntimeError("Connection closed by peer"), tmp_path / "number", kill=True)


def test_an_error_of_the_computation_stays_itself(variables, tmp_path):
    with pytest.raises(RuntimeError, match="diverged"):
        end_with(RuntimeError("diverged"), tmp_path / "number")


def test_no_other_user_reads_the_addresses_and_nothing_stays(variables):
    with local_processes(2, [sys.executable, "-c", ""]):
        folder = Path(os.environ["TRANSDUCE_PROCESS_STORE"]).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


def test_nothing_stays_where_a_process_cannot_be_started(variables, monkeypatch, tmp_path):
    """The folder stayed, and the processes that had been started ran on."""
    started, start = [], subprocess.Popen

    def limited(command, **options):
        if started:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        started.append(start(command, **options))
        return started[0]

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(subprocess, "Popen", limited)
    try:
        with pytest.raises(BlockingIOError), local_processes(3, [*OTHER, str(tmp_path / "number")]):
            pytest.fail("begins without the third process")
        assert started[0].poll() == -signal.SIGKILL
        assert [*temporary.iterdir()] == []
    finally:
        started[0].kill()
        started[0].wait()


def test_a_process_that_ends_while_it_is_being_ended_raises_nothing(variables, monkeypatch):
    """The thread that watches the others looked for the folder in a variable that was gone by then."""
    kill, killed, is_left, exited = local_processes_module._kill, *(threading.Event() for _ in range(3))

    def kill_and_wait(processes):
        kill(processes)
        if threading.current_thread() is not threading.main_thread():
            killed.set()
            is_left.wait(60)

    monkeypatch.setattr(local_processes_module, "PATIENCE", 0)
    monkeypatch.setattr(local_processes_module, "_kill", kill_and_wait)
    monkeypatch.setattr(os, "_exit", lambda code: exited.set())
    with local_processes(2, [sys.executable, "-c", "exit(2)"]):
        assert killed.wait(60)
    is_left.set()
    assert exited.wait(10)


def test_nothing_is_started_for_one_process(variables):
    with local_processes(1, ["/nonexistent"]):
        assert share_of_cores() is None


def test_processes_share_the_cores(variables, monkeypatch):
    monkeypatch.setattr("transduce.runtime.distributed.count_cores", lambda: 7)
    with local_processes(3, [sys.executable, "-c", ""]):
        assert share_of_cores() is None, "the tests have set OMP_NUM_THREADS"
        monkeypatch.delenv("OMP_NUM_THREADS")
        assert share_of_cores() == 2


WAITING = """
import sys, time
from transduce.runtime import local_processes as module
module.PATIENCE = 0.2
with module.local_processes(2, [sys.executable, "-c", "import sys; sys.exit(2)"]):
    time.sleep(600)
"""


def test_a_process_that_waits_for_one_that_failed_ends(tmp_path):
    """A process that fails before it has joined closes no connection by which the first would notice."""
    temporary = {**os.environ, "TMPDIR": str(tmp_path)}
    waiting = [sys.executable, "-c", WAITING]
    ended = subprocess.run(waiting, capture_output=True, text=True, timeout=60, env=temporary)
    assert ended.returncode == 1
    assert [*tmp_path.iterdir()] == []
    assert ended.stderr.count("transduce: process 1 of the training ended with code 2") == 1


def test_an_error_of_all_processes_is_told_as_it_is(variables, tmp_path):
    """Such as a loss that is not finite: the other process has failed too, with code 1."""
    with pytest.raises(RuntimeError, match="diverged"):
        end_with(RuntimeError("diverged"), tmp_path, other=[sys.executable, "-c", "exit(1)"])


def test_a_dry_run_is_of_one_process(micro, tmp_path, command):
    code, _, error = command("train", micro / "recipe.yaml", "--out", tmp_path / "run", "--dry-run", "--processes", 2)
    assert code == 2
    assert "leave --processes out" in error


def test_torchrun_starts_its_own_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="leave one of the two out"), local_processes(2, ["/nonexistent"]):
        pass


KILLED = """
import os, signal, sys, time
from pathlib import Path
from transduce.runtime.local_processes import local_processes
number = Path(sys.argv[1])
with local_processes(2, [sys.executable, *sys.argv]):
    if os.environ["RANK"] == "1":
        number.write_text(str(os.getpid()))
        time.sleep(600)
    while not number.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_ends_when_the_first_is_killed(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    killed = [sys.executable, tmp_path / "killed.py", tmp_path / "number"]
    ended = subprocess.run(killed, timeout=60, env={**os.environ, "TMPDIR": str(temporary)})
    assert ended.returncode == -signal.SIGKILL
    for _ in range(100):
        number = running(tmp_path / "number")
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            break
        status = Path(f"/proc/{number}/stat")  # of Linux, with Z for one that has ended and that nobody waited for
        if status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        raise AssertionError("the other process still runs")
    assert [*temporary.iterdir()] == []
