"""Several processes train like one: same micro-batches, gradients and files; another number of processes resumes."""

import contextlib
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

import pytest
import torch
from safetensors.torch import load_file

from micro_run import forked, forked_together
from transduce.runtime import distributed as together
from transduce.runtime.distributed import PREPARE_TIMEOUT, REPLY_TIMEOUT, SINGLE_PROCESS, ProcessGroup
from transduce.runtime.signals import OtherProcessError


class FakeDistributed:
    """Replaces `torch.distributed` in a process that plays several processes, rank 0 first."""

    def __init__(self, parts=()):
        self.parts, self.broadcasts = parts, []

    def new_group(self, *, backend, timeout):
        return timeout

    def all_gather_object(self, parts, items, group):
        assert items in self.parts
        assert group == REPLY_TIMEOUT
        parts[:] = self.parts

    def broadcast_object_list(self, objects, source, group):
        self.broadcasts = self.broadcasts or [pickle.dumps((objects, source, group))]
        objects[:], first_source, first_group = pickle.loads(self.broadcasts[0])
        assert (first_source, first_group) == (0, group)


@pytest.mark.parametrize("count", [7, 6, 2, 0])
def test_gathered_items_are_in_order(count, monkeypatch):
    parts = [list(range(rank, count, 3)) for rank in range(3)]
    monkeypatch.setattr(together, "distributed", FakeDistributed(parts))
    for rank, items in enumerate(parts):
        assert ProcessGroup(rank, 3).all_gather(tuple(items)) == list(range(count))
    assert SINGLE_PROCESS.all_gather(("a", "b")) == ["a", "b"]


@pytest.mark.parametrize("slow", [False, True])
def test_the_result_of_rank_zero_is_returned_on_all_processes(slow, monkeypatch):
    monkeypatch.setattr(together, "distributed", FakeDistributed())
    assert ProcessGroup(0, 2).on_rank_zero(lambda: ["result"], slow=slow) == ["result"]
    assert ProcessGroup(1, 2).on_rank_zero(lambda: pytest.fail("acts"), slow=slow) == ["result"]
    ((_, _, group),) = map(pickle.loads, together.distributed.broadcasts)
    assert group == (PREPARE_TIMEOUT if slow else REPLY_TIMEOUT)


@pytest.mark.parametrize(
    ("error", "elsewhere"),
    [
        (OSError(28, "No space left on device", "model"), OSError),
        (ValueError("name fewer corpora"), OtherProcessError),
        (RuntimeError("diverged"), OtherProcessError),
        (KeyboardInterrupt("Ctrl-C"), OtherProcessError),
    ],
)
def test_an_error_of_rank_zero_is_raised_on_all_processes(error, elsewhere, monkeypatch):
    """An OSError stays an OSError, which the training may survive; other errors become OtherProcessError."""

    def failing():
        raise error

    monkeypatch.setattr(together, "distributed", FakeDistributed())
    with pytest.raises(type(error)) as own:
        ProcessGroup(0, 2).on_rank_zero(failing)
    with pytest.raises(elsewhere) as other:
        ProcessGroup(1, 2).on_rank_zero(lambda: pytest.fail("acts"))
    assert own.value is error
    assert (type(other.value), str(other.value)) == (elsewhere, str(error))


@pytest.mark.parametrize("other", [0, 1])
def test_weights_that_differ_between_processes_are_an_error(monkeypatch, other):
    """`other` is added to the checksum of the other process."""
    monkeypatch.setattr(together, "distributed", FakeDistributed())
    monkeypatch.setattr(ProcessGroup, "all_reduce_max", lambda group, high, low: (high + other, low))
    expected = pytest.raises(RuntimeError, match="step 3: start again") if other else contextlib.nullcontext()
    with expected:
        ProcessGroup(0, 2).check_equal([torch.ones(3)], "the weights differ after step 3")


@pytest.mark.parametrize(
    ("variables", "is_here"),
    [
        ({"MASTER_ADDR": "127.0.0.1"}, True),
        ({"MASTER_ADDR": "127.0.1.1"}, True),
        ({"MASTER_ADDR": "::1"}, True),
        ({"MASTER_ADDR": "localhost"}, True),
        ({"MASTER_ADDR": "node-1"}, False),
        ({"MASTER_ADDR": "10.0.0.1"}, False),
        ({"MASTER_ADDR": "10.0.0.1", "LOCAL_WORLD_SIZE": "1"}, False),
        ({"MASTER_ADDR": "node-1", "LOCAL_WORLD_SIZE": "2"}, True),
        ({"MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": "1"}, False),
        ({"LOCAL_WORLD_SIZE": "2"}, True),
        ({}, False),
    ],
)
def test_processes_of_one_machine_are_recognised(monkeypatch, variables, is_here):
    for name in ("MASTER_ADDR", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert together._is_one_machine(2) is is_here


CHANGES = ["training.batch_tokens=2048", "training.micro_batches=4"]


def arguments(recipe, out, *changes):
    """The arguments of `transduce`."""
    return ["train", recipe, "--out", out, "--device", "cpu", *(f"--set={change}" for change in (*CHANGES, *changes))]


def trained(processes, recipe, out, *changes):
    """Runs `transduce train` in processes that find each other as those of `torchrun` do."""
    return forked_together(processes, *arguments(recipe, out, *changes))


def started_by_torchrun(recipe, out, *, restarts=0):
    """Starts `torchrun` with two processes."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0"]
    torchrun += [f"--max-restarts={restarts}", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "-m", "transduce"]
    command = [*torchrun, *map(str, arguments(recipe, out))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def weights(run):
    return (run / "model.safetensors").read_bytes()


def assert_close(run, expected_run, tolerance):
    actual, expected = load_file(run / "model.safetensors"), load_file(expected_run / "model.safetensors")
    assert actual.keys() == expected.keys()
    for name, weight in actual.items():
        torch.testing.assert_close(
            weight, expected[name], rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
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


def test_any_number_of_processes_trains_the_same_model(runs):
    for processes in (2, 4):
        assert_close(runs[processes], runs[1], 2e-5)
        records, expected = validations(runs[processes]), validations(runs[1])
        assert [line["step"] for line in records] == [line["step"] for line in expected]
        for record, single in zip(records, expected, strict=True):
            assert record["validation_loss"] == pytest.approx(single["validation_loss"], abs=1e-4)
            assert record["accuracy"] == pytest.approx(single["accuracy"], abs=0.03)


def test_the_same_number_of_processes_is_bit_identical(runs, micro, tmp_path):
    assert trained(2, micro / "recipe.yaml", tmp_path / "again").code == 0
    assert weights(tmp_path / "again") == weights(runs[2])


@pytest.mark.slow
def test_a_stopped_training_resumes_bit_identically(runs, micro, tmp_path):
    with started_by_torchrun(micro / "recipe.yaml", tmp_path / "run") as process:
        for line in process.stderr:
            if line.startswith("step 6/12"):
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stderr.read()
    assert rest.count("the same command goes on from there") == 1
    assert trained(2, micro / "recipe.yaml", tmp_path / "run").code == 0
    assert weights(tmp_path / "run") == weights(runs[2])


@pytest.mark.parametrize(("before", "after"), [(1, 2), pytest.param(4, 2, marks=pytest.mark.slow)])
def test_another_number_of_processes_resumes(runs, micro, tmp_path, before, after):
    out = tmp_path / "run"
    assert trained(before, micro / "recipe.yaml", out, "training.steps=6").code == 0
    ended = trained(after, micro / "recipe.yaml", out)
    assert ended.code == 0, ended.error
    assert "going on after step 6" in ended.error
    assert f"processes was {before} and is {after}" in ended.error
    assert_close(out, runs[1], 2e-5)


def test_muon_whose_matrices_two_processes_divide_resumes_in_one(micro, tmp_path):
    muon = "training.optimiser={kind: muon}"
    assert trained(1, micro / "recipe.yaml", tmp_path / "whole", muon).code == 0
    assert trained(2, micro / "recipe.yaml", tmp_path / "run", muon, "training.steps=6").code == 0
    ended = trained(1, micro / "recipe.yaml", tmp_path / "run", muon)
    assert "processes was 2 and is 1" in ended.error
    assert_close(tmp_path / "run", tmp_path / "whole", 2e-4)


SHARDED = "training.parallel=sharded"


@pytest.mark.slow
def test_sharded_training_gives_the_same_model_and_resumes_bit_identically(runs, micro, tmp_path):
    """Three processes share four micro-batches a step; one process resumes their checkpoint without shards."""
    assert trained(3, micro / "recipe.yaml", tmp_path / "whole", SHARDED).code == 0
    assert_close(tmp_path / "whole", runs[1], 2e-5)
    assert trained(3, micro / "recipe.yaml", tmp_path / "run", SHARDED, "training.steps=6").code == 0
    shutil.copytree(tmp_path / "run", tmp_path / "alone")
    assert trained(3, micro / "recipe.yaml", tmp_path / "run", SHARDED).code == 0
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")
    ended = trained(1, micro / "recipe.yaml", tmp_path / "alone")
    assert ended.code == 0, ended.error
    assert_close(tmp_path / "alone", runs[1], 2e-5)


@pytest.mark.slow
def test_a_restart_after_a_dead_process_is_bit_identical(runs, micro, tmp_path):
    """With `--max-restarts`, torchrun restarts all processes."""
    with started_by_torchrun(micro / "recipe.yaml", tmp_path / "run", restarts=1) as process:
        for line in process.stderr:
            if line.startswith("step 8/12"):
                break
        _kill_one(process.pid)
        rest = process.communicate(timeout=120)[1]
    assert process.returncode == 0, rest
    assert "going on after step" in rest
    assert weights(tmp_path / "run") == weights(runs[2])


def _kill_one(parent):
    """Kills the second process of `torchrun`."""
    for _ in range(100):
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if len(children) >= 2:
            os.kill(int(children[1]), signal.SIGKILL)
            return
        time.sleep(0.05)
    raise AssertionError("torchrun has started no second process")


def test_too_few_micro_batches_are_reported_once(micro, tmp_path):
    ended = trained(2, micro / "recipe.yaml", tmp_path / "run", "training.micro_batches=1")
    assert ended.code != 0
    assert ended.error.count("a step has 1 micro-batches for 2 processes: set training.micro_batches: 2") == 1


@pytest.mark.parametrize("number", ["auto", 1])
def test_a_run_of_one_process_goes_on_with_two_as_the_message_says(micro, tmp_path, number):
    """The recorded number stayed, whatever the recipe said, and the recipe could not change."""
    out, command = tmp_path / "run", ["train", micro / "recipe.yaml", "--device=cpu", "--set=training.save_every=2"]
    command += ["--out", out, "--set=training.validate_every=null", f"--set=training.micro_batches={number}"]
    begun = forked(*command, "--set=training.steps=2")
    assert begun.code == 0, begun.error
    command.append("--set=training.steps=4")
    refused = forked_together(2, *command)
    assert refused.code == 2
    remedy = (
        "a step has 1 micro-batches for 2 processes: set training.micro_batches: 2 (or more) and add --accept-changes"
    )
    assert refused.error.count(remedy) == 1
    ended = forked_together(2, *command, "--set=training.micro_batches=2", "--accept-changes")
    assert ended.code == 0, ended.error
    state = json.loads((out / "training" / "step-00000004" / "state.json").read_text())
    assert state["training"]["micro_batches"] == 2


def test_a_changed_recipe_is_reported_once(micro, runs, tmp_path):
    copied = shutil.copytree(runs[2], tmp_path / "copied")
    ended = trained(2, micro / "recipe.yaml", copied, "model.dropout=0.2")
    assert ended.code != 0
    assert ended.error.count("was begun with another recipe") == 1


@functools.cache
def probed(micro, processes, *arguments):
    """Runs `probe.py` in several processes and returns what it saves."""
    out = micro / f"probe-{processes}-{'-'.join(arguments)}.pt"
    store = micro / "together-1" / "training" / "store"
    script = Path(__file__).with_name("probe.py")
    ended = forked_together(processes, micro / "recipe.yaml", store, out, *arguments, script=script)
    assert ended.code == 0, ended.error
    return torch.load(out)


def assert_the_same_training(actual, single):
    """Compares gradients of the first step, relative to their norm, all gradient norms, and weights after 50 steps."""
    for name, gradient in single["first"].items():
        assert float((actual["first"][name] - gradient).norm()) <= 1e-6 * float(gradient.norm()), name
    torch.testing.assert_close(torch.tensor(actual["norms"]), torch.tensor(single["norms"]), rtol=1e-4, atol=0)
    assert actual["norms"][0] == pytest.approx(single["norms"][0], rel=1e-6)
    for name, weight in single["weights"].items():
        assert float((actual["weights"][name] - weight).abs().max()) <= 1e-5, name


FOUR = pytest.param(4, marks=pytest.mark.slow)


# Another test trains replicated processes too.
@pytest.mark.parametrize("parallel", [pytest.param("replicated", marks=pytest.mark.slow), "sharded"])
@pytest.mark.parametrize("processes", [2, FOUR])
def test_several_processes_equal_one_with_as_many_micro_batches(runs, micro, processes, parallel):
    """50 steps at a constant rate of 1e-3, with dropout."""
    micro_batches = str(processes)
    single = probed(micro, 1, "50", micro_batches, "replicated")
    actual = probed(micro, processes, "50", micro_batches, parallel)
    assert_the_same_training(actual, single)
    share = actual["local_size"] / single["local_size"]
    assert share == 1 if parallel == "replicated" else share == pytest.approx(1 / processes, rel=0.1)


def test_processes_that_drew_other_weights_begin_with_those_of_rank_zero(runs, micro):
    """In shards there is nothing to make equal: each weight lies in one process."""
    single = probed(micro, 1, "50", "2", "replicated")
    assert_the_same_training(probed(micro, 2, "50", "2", "replicated", "draws"), single)


def test_the_test_detects_a_mean_instead_of_a_sum(runs, micro):
    single = probed(micro, 1, "50", "2", "replicated")
    with pytest.raises(AssertionError):
        assert_the_same_training(probed(micro, 2, "50", "2", "replicated", "mean"), single)


REFUSED_ON_ONE = """
import os
import torch
from transduce.commands import main
from transduce.evaluation.validation import Validation

whole, first = Validation._sums, []

def refused(self, model):
    first.append(model)
    if len(first) == 1:
        return self._map_batches("", fail, [0, 1])
    return whole(self, model)

def fail(rank):
    if rank == 1:
        raise torch.OutOfMemoryError("refused")

Validation._sums = refused
main()
"""


def test_memory_that_one_process_lacks_in_a_validation_is_known_to_all(micro, tmp_path):
    """The other would wait half an hour for its results."""
    (tmp_path / "refused.py").write_text(REFUSED_ON_ONE)
    given = arguments(micro / "recipe.yaml", tmp_path / "run", "training.steps=6")
    ended = forked_together(2, *given, script=tmp_path / "refused.py")
    assert ended.code == 0, ended.error
    assert ended.error.count("could not validate: refused") == 1
    assert "validation after step 6" in ended.error
