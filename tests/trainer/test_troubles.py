"""What breaks while a run is at work: gradients that are no numbers, a disk that refuses, memory that is refused."""

import errno
import itertools
import json
import re
import resource
import signal
import subprocess
import sys
from unittest.mock import Mock

import pytest
import safetensors.torch
import torch
from torch.utils.tensorboard import SummaryWriter

from transduce.corpus.subword_dropout import SubwordDropoutStore
from transduce.model_directory import Model
from transduce.recipe import load
from transduce.runtime.signals import Interrupted
from transduce.trainer import checkpointing as saving
from transduce.trainer import epoch_retry
from transduce.trainer import train as training
from transduce.trainer import trainer as running
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.train import TrainOptions, run_training
from transduce.training import DivergedError, LabelSmoothing

CPU = TrainOptions("cpu", 1)


@pytest.fixture(scope="module")
def recipe(micro):
    return load(micro / "recipe.yaml", ["training.micro_batches=1"])


@pytest.fixture(scope="module")
def straight(recipe, tmp_path_factory):
    """A run that nothing disturbs."""
    out = tmp_path_factory.mktemp("straight")
    run_training(recipe, out, CPU, lambda line: None)
    return out


@pytest.fixture
def undisturbed(straight):
    return (straight / "model.safetensors").read_bytes()


def poisoned(monkeypatch, bad):
    """Every call of the objective whose number, from 1, is in `bad` gives a loss that is no number."""
    forward, calls = LabelSmoothing.forward, []

    def injected(self, *batch):
        loss = forward(self, *batch)
        # The largest shapes are tried before the first step: two calls.
        calls.append(None)
        if len(calls) - 2 in bad:
            return loss._replace(smoothed=loss.smoothed * float("nan"))
        return loss

    monkeypatch.setattr(LabelSmoothing, "forward", injected)


def events(out):
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return [(line["step"], line["event"]) for line in lines if "event" in line]


def test_a_step_without_a_gradient_is_skipped_counted_and_told(recipe, tmp_path, monkeypatch, undisturbed):
    poisoned(monkeypatch, {6})
    outcome = run_training(recipe, tmp_path / "run", CPU, lambda line: None)
    assert outcome.step == 12
    assert events(tmp_path / "run") == [(6, "skipped: its gradient was not finite")]
    state = json.loads((tmp_path / "run" / "training" / "step-00000012" / "state.json").read_text())
    assert state["skips"] == [1, 0, 0]
    weights = Model.read(tmp_path / "run").module.state_dict()
    assert all(bool(weight.isfinite().all()) for weight in weights.values())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != undisturbed
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_after_several_it_goes_back_and_on_with_other_data(recipe, tmp_path, monkeypatch):
    seen = []
    loop = running.training_steps

    def watched(*arguments, after, position, **rest):
        seen.append((after, position))
        return loop(*arguments, after=after, position=position, **rest)

    monkeypatch.setattr(running, "training_steps", watched)
    poisoned(monkeypatch, set(range(6, 11)))
    outcome = run_training(recipe, tmp_path / "run", CPU, lambda line: None)
    assert outcome.step == 12
    assert events(tmp_path / "run") == [
        *((step, "skipped: its gradient was not finite") for step in range(6, 11)),
        (10, "went back to the weights of step 4, on other data"),
    ]
    (first, begun), (second, moved) = seen
    assert (first, second) == (0, 4)
    steps = running.Planner(
        training.prepare(recipe, tmp_path / "run", print).train,
        batch_tokens=512,
        micro_batches=1,
        seed=recipe.training.seed,
    ).steps(begun)
    assert [next(steps) for _ in range(10)][-1].position == moved


def test_what_diverges_on_any_data_ends_and_leaves_what_was_saved(recipe, tmp_path, monkeypatch):
    poisoned(monkeypatch, set(range(6, 1000)))
    with pytest.raises(DivergedError, match="and again after 3 returns to the last checkpoint"):
        run_training(recipe, tmp_path / "run", CPU, lambda line: None)
    assert [path.name for path in (tmp_path / "run" / "training").glob("step-*")] == ["step-00000004"]
    assert sum("went back" in event for _, event in events(tmp_path / "run")) == 3
    poisoned(monkeypatch, set())
    monkeypatch.undo()
    assert run_training(recipe, tmp_path / "run", CPU, lambda line: None).step == 12


def test_a_stop_among_steps_without_a_gradient_saves_no_such_weights(recipe, tmp_path, monkeypatch, undisturbed):
    """The same command goes on from the last checkpoint, as after a kill, and not from what may be diverging."""
    poisoned(monkeypatch, {6, 7})
    said = []

    def say(line):
        said.append(line)
        if line.startswith("step 7: skipped"):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_training(recipe, tmp_path / "run", CPU, say)
    assert "stopped after step 7; the same command goes on from its last checkpoint" in said
    assert [path.name for path in (tmp_path / "run" / "training").glob("step-*")] == ["step-00000004"]
    monkeypatch.undo()
    assert run_training(recipe, tmp_path / "run", CPU, said.append).step == 12
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == undisturbed


def test_a_loss_beyond_all_numbers_is_none_in_the_journal(tmp_path):
    journal = MetricsLog(tmp_path, lambda line: None, None)
    journal._write({"step": 1, "perplexity": float("inf"), "loss": float("nan"), "rate": 0.5})
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "perplexity": null, "loss": null, "rate": 0.5}\n'


def test_what_diverges_at_once_says_so(recipe, tmp_path, monkeypatch):
    poisoned(monkeypatch, set(range(1, 1000)))
    with pytest.raises(DivergedError, match=r"step 5, before there was a checkpoint"):
        run_training(recipe, tmp_path / "run", CPU, lambda line: None)


def refusing(monkeypatch, refused, error=errno.ENOSPC):
    """The disk refuses the files of weights whose number, from 1, is in `refused`."""
    save_file, calls = safetensors.torch.save_file, []

    def saved(tensors, path):
        calls.append(path)
        if len(calls) in refused:
            path.write_bytes(b"half")
            raise safetensors.SafetensorError(f"Error while serializing: I/O error: {error}")
        save_file(tensors, path)

    monkeypatch.setattr("safetensors.torch.save_file", saved)


def test_a_full_disk_is_told_and_tried_again(recipe, tmp_path, monkeypatch, undisturbed):
    monkeypatch.setattr(saving, "RETRY", 1)
    said = []
    # The model of step 3, the weights of step 4, again after step 5, and those of step 6.
    refusing(monkeypatch, {1, 2, 3, 4})
    outcome = run_training(recipe, tmp_path / "run", CPU, said.append)
    assert outcome.step == 12
    told = [line for line in said if "could not" in line]
    assert len(told) == 4
    assert "step 3: could not write the model" in told[0]
    assert "step 4: could not save: " in told[1]
    assert "optimiser.safetensors: I/O error" in told[1] or "model.safetensors: I/O error" in told[1]
    assert "Errno" not in told[1]
    assert "there is none yet; trying again after step 5" in told[1]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == undisturbed


def test_a_full_disk_is_tried_again_so_many_steps_on_by_the_clock_too(micro, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "RETRY", 3)
    monkeypatch.setattr("transduce.trainer.training_state.time.monotonic", Mock(side_effect=itertools.count(0, 100)))
    by_the_clock = load(micro / "recipe.yaml", ['training.save_every="1 min"', "training.validate_every=null"])
    said = []
    refusing(monkeypatch, {1, 2, 3})
    run_training(by_the_clock, tmp_path / "run", CPU, said.append)
    told = [line.partition(":")[0] for line in said if "could not save" in line]
    assert told == ["step 1", "step 4", "step 7"]


def test_a_disk_that_stays_full_ends_with_what_was_saved(recipe, tmp_path, monkeypatch):
    refusing(monkeypatch, set(range(5, 1000)))
    with pytest.raises(OSError, match="I/O error"):
        run_training(recipe, tmp_path / "run", CPU, lambda line: None)
    monkeypatch.undo()
    outcome = run_training(recipe, tmp_path / "run", CPU, lambda line: None)
    assert outcome.step == 12
    Model.read(tmp_path / "run")


@pytest.fixture(scope="module")
def dropout(micro, tmp_path_factory):
    """A recipe whose epochs are written anew, and the weights that it gives."""
    recipe = load(micro / "recipe.yaml", ["subwords.dropout=0.1", "training.micro_batches=1"])
    out = tmp_path_factory.mktemp("dropout")
    run_training(recipe, out, CPU, lambda line: None)
    return recipe, (out / "model.safetensors").read_bytes()


def refusing_epochs(monkeypatch, refused):
    """The disk is full whenever an epoch after the first is written, while `refused` is not empty."""
    encode = SubwordDropoutStore._encode_epoch

    def encoded(self, seed, epoch):
        if epoch and refused:
            refused.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        return encode(self, seed, epoch)

    monkeypatch.setattr(SubwordDropoutStore, "_encode_epoch", encoded)


def test_an_epoch_that_a_full_disk_refuses_is_told_and_tried_again(dropout, tmp_path, monkeypatch):
    recipe, weights = dropout
    monkeypatch.setattr(epoch_retry, "RETRY_SECONDS", 0.01)
    refusing_epochs(monkeypatch, [1, 2])
    out, said = tmp_path / "run", []
    assert run_training(recipe, out, CPU, said.append).step == 12
    (first, what), second = events(out)
    message = rf"could not write the next epoch: .*No space left on device: '{out}/training/store'; trying again in"
    assert re.match(message, what)
    assert second == (first, what)
    assert (out / "model.safetensors").read_bytes() == weights


def test_a_training_that_waits_for_space_stops_and_saves(dropout, tmp_path, monkeypatch):
    recipe, weights = dropout
    refusing_epochs(monkeypatch, [1])
    said = []

    def say(line):
        said.append(line)
        if "could not write the next epoch" in line:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_training(recipe, tmp_path / "run", CPU, say)
    step = int(said[-1].removeprefix("stopped after step ").split(";")[0])
    assert (tmp_path / "run" / "training" / f"step-{step:08}").is_dir()
    run_training(recipe, tmp_path / "run", CPU, said.append)
    assert f"going on after step {step}" in said
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights


def test_a_limit_that_the_system_sets_on_files(micro, tmp_path, trained):
    """No mock: the kernel refuses every file above so many bytes, and training goes on to where it has to save."""
    size = (trained / "training" / "step-00000012" / "optimiser.safetensors").stat().st_size

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, size - 1))

    command = [sys.executable, "-m", "transduce", "train", micro / "recipe.yaml", "--out", tmp_path / "run"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limited)
    assert ended.returncode == 2
    assert "step 4: could not save: " in ended.stderr
    assert "File too large" in ended.stderr
    assert "trying again after step 14" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "step 12/12" in ended.stderr
    Model.read(tmp_path / "run")  # the best of a validation, which is smaller than the optimiser's moments


def test_tensorboard_that_fails_once_costs_no_record(recipe, tmp_path, monkeypatch, straight, undisturbed):
    add_scalar, calls, said = SummaryWriter.add_scalar, [], []

    def refused(writer, *arguments):
        calls.append(writer)
        if writer is calls[0]:  # as its thread does it: once failed, for ever
            raise OSError(errno.ENOSPC, "No space left on device")
        add_scalar(writer, *arguments)

    monkeypatch.setattr(SummaryWriter, "add_scalar", refused)
    run_training(recipe, tmp_path / "run", CPU, said.append)
    assert sum("could not write for TensorBoard" in line for line in said) == 1
    steps = [
        [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (straight, tmp_path / "run")
    ]
    assert steps[0] == steps[1]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == undisturbed


def test_a_journal_that_cannot_be_flushed_is_a_checkpoint_that_cannot_be_saved(
    recipe, tmp_path, monkeypatch, undisturbed
):
    monkeypatch.setattr(saving, "RETRY", 1)
    calls, said = [], []

    def refused(path):
        calls.append(path)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr("transduce.trainer.metrics_log.flush_to_disk", refused)
    run_training(recipe, tmp_path / "run", CPU, said.append)
    assert [line for line in said if "could not save" in line and "Input/output error" in line]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == undisturbed


def test_a_journal_that_cannot_be_written_stops_nothing(recipe, tmp_path, monkeypatch, undisturbed):
    opened = type(tmp_path).open

    def refused(path, mode="r", *arguments, **options):
        if path.name == "metrics.jsonl" and mode == "a":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return opened(path, mode, *arguments, **options)

    monkeypatch.setattr(type(tmp_path), "open", refused)
    said = []
    run_training(recipe, tmp_path / "run", CPU, said.append)
    assert any("warning: could not write the journal" in line for line in said)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == undisturbed


def test_memory_that_is_refused_is_known_before_the_first_step(recipe, tmp_path, monkeypatch):
    forward = LabelSmoothing.forward

    def narrow(self, source, *rest):
        if source.numel() > 200:
            raise torch.OutOfMemoryError("refused")
        return forward(self, source, *rest)

    monkeypatch.setattr(LabelSmoothing, "forward", narrow)
    said = []
    with pytest.raises(RuntimeError, match=r"set training.micro_batches: 4 "):
        run_training(recipe, tmp_path / "run", CPU, said.append)
    assert not [line for line in said if line.startswith("step")]
    smaller = recipe.model_copy(update={"training": recipe.training.model_copy(update={"micro_batches": 4})})
    assert run_training(smaller, tmp_path / "run", CPU, lambda line: None).step == 12
