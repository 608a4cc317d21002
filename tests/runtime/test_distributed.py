"""Several processes train as one: the same micro-batches, gradient and files; and go on as another number."""

import functools
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from transduce.runtime import distributed as together
from transduce.runtime.distributed import PREPARE_TIMEOUT, REPLY_TIMEOUT, SINGLE_PROCESS, ProcessGroup
from transduce.runtime.signals import OtherProcessError


class Alike:
    """What `torch.distributed` does for several processes, for one that plays them, the first of them first."""

    def __init__(self, parts=()):
        self.parts, self.told = parts, []

    def new_group(self, *, backend, timeout):
        return timeout

    def all_gather_object(self, found, mine, group):
        assert mine in self.parts
        assert group == REPLY_TIMEOUT
        found[:] = self.parts

    def broadcast_object_list(self, told, source, group):
        self.told = self.told or [pickle.dumps((told, source, group))]
        told[:], first, used = pickle.loads(self.told[0])
        assert (first, used) == (0, group)


@pytest.mark.parametrize("many", [7, 6, 2, 0])
def test_what_each_has_made_comes_in_the_order_of_the_things(many, monkeypatch):
    parts = [list(range(rank, many, 3)) for rank in range(3)]
    monkeypatch.setattr(together, "distributed", Alike(parts))
    for rank, mine in enumerate(parts):
        assert ProcessGroup(rank, 3).all_gather(tuple(mine)) == list(range(many))
    assert SINGLE_PROCESS.all_gather(("a", "b")) == ["a", "b"]


@pytest.mark.parametrize("slow", [False, True])
def test_what_the_first_finds_all_have(slow, monkeypatch):
    monkeypatch.setattr(together, "distributed", Alike())
    assert ProcessGroup(0, 2).on_rank_zero(lambda: ["found"], slow=slow) == ["found"]
    assert ProcessGroup(1, 2).on_rank_zero(lambda: pytest.fail("acts"), slow=slow) == ["found"]
    ((_, _, group),) = map(pickle.loads, together.distributed.told)
    assert group == (PREPARE_TIMEOUT if slow else REPLY_TIMEOUT)


@pytest.mark.parametrize(
    ("error", "elsewhere"),
    [
        (OSError(28, "No space left on device", "model"), OSError),
        (ValueError("name fewer corpora"), OtherProcessError),
        (RuntimeError("diverged"), OtherProcessError),
    ],
)
def test_what_goes_wrong_in_the_first_goes_wrong_in_all(error, elsewhere, monkeypatch):
    """An `OSError` may be lived with; all else is told by the first, and the others leave in silence."""

    def failing():
        raise error

    monkeypatch.setattr(together, "distributed", Alike())
    with pytest.raises(type(error)) as own:
        ProcessGroup(0, 2).on_rank_zero(failing)
    with pytest.raises(elsewhere) as other:
        ProcessGroup(1, 2).on_rank_zero(lambda: pytest.fail("acts"))
    assert own.value is error
    assert (type(other.value), str(other.value)) == (elsewhere, str(error))


CHANGES = ["training.batch_tokens=2048", "training.micro_batches=4"]


class Ended(NamedTuple):
    code: int
    out: str
    error: str


def started(processes, recipe, out, *changes, elastic=0):
    """`transduce train` under `torchrun`, or alone."""
    alone = [sys.executable, "-m", "transduce"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--master-port=0"]
    torchrun += [f"--max-restarts={elastic}", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "-m", "transduce"]
    command = [*(alone if processes == 1 else torchrun), "train", str(recipe), "--out", str(out), "--device", "cpu"]
    command += [f"--set={change}" for change in (*CHANGES, *changes)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def trained(*arguments, **options):
    with started(*arguments, **options) as process:
        out, error = process.communicate(timeout=120)
    return Ended(process.returncode, out, error)


def weights(run):
    return (run / "model.safetensors").read_bytes()


def close(one, other, tolerance):
    one, other = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert one.keys() == other.keys()
    for name, weight in one.items():
        torch.testing.assert_close(
            weight, other[name], rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.fixture(scope="module")
def runs(micro):
    """The same training in one, two and four processes."""
    places = {}
    for processes in (1, 2, 4):
        out = micro / f"together-{processes}"
        ended = trained(processes, micro / "recipe.yaml", out)
        assert ended.code == 0, ended.error
        assert ended.out.count("12 steps are done") == 1
        places[processes] = out
    return places


def validations(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "bleu" in line]


def test_as_many_processes_as_one_likes_train_the_same_model(runs):
    for processes in (2, 4):
        close(runs[processes], runs[1], 2e-5)
        mine, theirs = validations(runs[processes]), validations(runs[1])
        assert [line["step"] for line in mine] == [line["step"] for line in theirs]
        for one, other in zip(mine, theirs, strict=True):
            assert one["validation_loss"] == pytest.approx(other["validation_loss"], abs=1e-4)
            assert one["accuracy"] == pytest.approx(other["accuracy"], abs=0.03)


def test_the_bits_repeat_for_the_same_number(runs, micro, tmp_path):
    assert trained(2, micro / "recipe.yaml", tmp_path / "again").code == 0
    assert weights(tmp_path / "again") == weights(runs[2])


def test_stopped_in_all_processes_at_once_and_gone_on_with_the_undisturbed_bits(runs, micro, tmp_path):
    with started(2, micro / "recipe.yaml", tmp_path / "run") as process:
        for line in process.stderr:
            if line.startswith("step 6/12"):
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stderr.read()
    assert rest.count("the same command goes on from there") == 1
    assert trained(2, micro / "recipe.yaml", tmp_path / "run").code == 0
    assert weights(tmp_path / "run") == weights(runs[2])


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 1), (1, 2)])
def test_what_so_many_have_saved_others_go_on_from(runs, micro, tmp_path, before, after):
    out = tmp_path / "run"
    assert trained(before, micro / "recipe.yaml", out, "training.steps=6").code == 0
    ended = trained(after, micro / "recipe.yaml", out)
    assert ended.code == 0, ended.error
    assert "going on after step 6" in ended.error
    assert f"processes was {before} and is {after}" in ended.error
    close(out, runs[1], 2e-5)


SHARDED = "training.parallel=sharded"


def test_in_shards_the_same_model_is_trained_and_resumed_with_its_bits(runs, micro, tmp_path):
    """By three processes, which get four micro-batches a step; and what they saved one process goes on from, whole."""
    assert trained(3, micro / "recipe.yaml", tmp_path / "whole", SHARDED).code == 0
    close(tmp_path / "whole", runs[1], 2e-5)
    assert trained(3, micro / "recipe.yaml", tmp_path / "run", SHARDED, "training.steps=6").code == 0
    shutil.copytree(tmp_path / "run", tmp_path / "alone")
    assert trained(3, micro / "recipe.yaml", tmp_path / "run", SHARDED).code == 0
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    ended = trained(1, micro / "recipe.yaml", tmp_path / "alone")
    assert ended.code == 0, ended.error
    close(tmp_path / "alone", runs[1], 2e-5)


def test_a_process_that_dies_ends_all_and_a_restart_ends_with_the_undisturbed_bits(runs, micro, tmp_path):
    """Under `--max-restarts` the job begins again by itself."""
    with started(2, micro / "recipe.yaml", tmp_path / "run", elastic=1) as process:
        for line in process.stderr:
            if line.startswith("step 8/12"):
                break
        _kill_one(process.pid)
        rest = process.communicate(timeout=120)[1]
    assert process.returncode == 0, rest
    assert "going on after step" in rest
    assert weights(tmp_path / "run") == weights(runs[2])


def _kill_one(parent):
    """Kills the second process that `torchrun` has started."""
    for _ in range(100):
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if len(children) >= 2:
            os.kill(int(children[1]), signal.SIGKILL)
            return
        time.sleep(0.05)
    raise AssertionError("there are no processes")


def test_too_few_pieces_are_told_once(micro, tmp_path):
    ended = trained(2, micro / "recipe.yaml", tmp_path / "run", "training.micro_batches=1")
    assert ended.code != 0
    assert ended.error.count("a step has 1 micro-batches for 2 processes: set training.micro_batches: 2") == 1


def test_what_the_user_has_to_mend_is_told_once(micro, runs, tmp_path):
    copied = shutil.copytree(runs[2], tmp_path / "copied")
    ended = trained(2, micro / "recipe.yaml", copied, "model.dropout=0.2")
    assert ended.code != 0
    assert ended.error.count("was begun with another recipe") == 1


@functools.cache
def probed(micro, processes, *arguments):
    """What `probe.py` writes down in so many processes."""
    out = micro / f"probe-{processes}-{'-'.join(arguments)}.pt"
    store = micro / "together-1" / "training" / "store"
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--master-port=0"]
    launcher += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    command = [*(launcher if processes > 1 else [sys.executable]), str(Path(__file__).with_name("probe.py"))]
    command += [str(micro / "recipe.yaml"), str(store), str(out), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    return torch.load(out)


def assert_the_same_training(found, alone):
    """Gradients of the first step within 1e-6 of their size, tensor by tensor; norms; weights after 50 steps, 1e-5."""
    for name, gradient in alone["first"].items():
        assert float((found["first"][name] - gradient).norm()) <= 1e-6 * float(gradient.norm()), name
    torch.testing.assert_close(torch.tensor(found["norms"]), torch.tensor(alone["norms"]), rtol=1e-4, atol=0)
    assert found["norms"][0] == pytest.approx(alone["norms"][0], rel=1e-6)
    for name, weight in alone["weights"].items():
        assert float((found["weights"][name] - weight).abs().max()) <= 1e-5, name


@pytest.mark.parametrize("parallel", ["replicated", "sharded"])
@pytest.mark.parametrize("processes", [2, 4])
def test_many_processes_are_one_with_as_many_pieces(runs, micro, processes, parallel):
    """50 steps at a constant rate of 1e-3, with dropout."""
    micro_batches = str(processes)
    alone = probed(micro, 1, "50", micro_batches, "replicated")
    found = probed(micro, processes, "50", micro_batches, parallel)
    assert_the_same_training(found, alone)
    share = found["kept"] / alone["kept"]
    assert share == 1 if parallel == "replicated" else share == pytest.approx(1 / processes, rel=0.1)


def test_a_mean_in_the_place_of_a_sum_is_found(runs, micro):
    alone = probed(micro, 1, "50", "2", "replicated")
    with pytest.raises(AssertionError):
        assert_the_same_training(probed(micro, 2, "50", "2", "replicated", "mean"), alone)
