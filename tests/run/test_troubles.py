"""Failures during a training: gradients of NaN, failing disks, too little memory."""

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

from log_records import logged_lines
from transduce.corpus.epoch_encoding import ReencodedStore
from transduce.corpus.planner import Planner
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run import checkpoints as checkpoints_module
from transduce.run import trainer
from transduce.run.checkpoints import Checkpoints
from transduce.run.metrics_log import EventFile, MetricsLog
from transduce.run.train import TrainOptions, prepare, run_training, train
from transduce.runtime.signals import Interrupted
from transduce.training.divergence import DivergedError
from transduce.training.objective import TrainingObjective

CPU = TrainOptions("cpu", 1)


@pytest.fixture(scope="module")
def recipe(micro):
    return load(micro / "recipe.yaml", ["training.micro_batches=1"])


@pytest.fixture(scope="module")
def uninterrupted(recipe, tmp_path_factory):
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("uninterrupted")
    run_training(recipe, out, CPU)
    return out


@pytest.fixture
def expected_model(uninterrupted):
    return (uninterrupted / "model.safetensors").read_bytes()


def inject_nan(monkeypatch, steps):
    """Makes the loss NaN at the training steps whose number, from 1, is in `steps`."""
    forward, calls = TrainingObjective.forward, []

    def injected(self, *batch):
        loss = forward(self, *batch)
        # The memory check makes two calls before the first step.
        calls.append(None)
        if len(calls) - 2 in steps:
            return loss._replace(smoothed=loss.smoothed * float("nan"))
        return loss

    monkeypatch.setattr(TrainingObjective, "forward", injected)


def events(out):
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    named = [(line["step"], line["event"]) for line in lines if "event" in line]
    return [(step, event) for step, event in named if not event.startswith("publishes ")]


def test_a_step_with_a_gradient_of_nan_is_skipped_and_logged(recipe, tmp_path, monkeypatch, expected_model):
    inject_nan(monkeypatch, {6})
    result = run_training(recipe, tmp_path / "run", CPU)
    assert result.step == 12
    assert events(tmp_path / "run") == [(6, "skipped: its gradient was not finite")]
    state = json.loads((tmp_path / "run" / "training" / "step-00000012" / "state.json").read_text())
    assert state["training"]["skips"] == [1, 0, 0]
    weights = Model.read(tmp_path / "run").module.state_dict()
    assert all(bool(weight.isfinite().all()) for weight in weights.values())
    assert (tmp_path / "run" / "model.safetensors").read_bytes() != expected_model
    assert "NaN" not in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_a_checkpoint_that_falls_on_a_skipped_step_is_saved_after_the_next(recipe, tmp_path, monkeypatch):
    inject_nan(monkeypatch, {4})
    steps = train(recipe, tmp_path / "run", device="cpu", threads=1)
    for _ in range(6):
        next(steps)
    steps.close()
    assert Checkpoints(tmp_path / "run" / "training").steps() == [5]


def test_several_skipped_steps_roll_back_and_continue_on_other_data(recipe, tmp_path, monkeypatch):
    seen = []
    loop = trainer.training_steps

    def watched(*arguments, after, position, **rest):
        seen.append((after, position))
        return loop(*arguments, after=after, position=position, **rest)

    monkeypatch.setattr(trainer, "training_steps", watched)
    inject_nan(monkeypatch, set(range(6, 11)))
    result = run_training(recipe, tmp_path / "run", CPU)
    assert result.step == 12
    assert events(tmp_path / "run") == [
        *((step, "skipped: its gradient was not finite") for step in range(6, 11)),
        (10, "went back to the weights of step 4, on other data"),
    ]
    (first, begun), (second, moved) = seen
    assert (first, second) == (0, 4)
    steps = Planner(
        prepare(recipe, tmp_path / "run").train,
        batch_tokens=512,
        micro_batches=1,
        seed=recipe.training.seed,
    ).steps(begun)
    assert [next(steps) for _ in range(10)][-1].position == moved


def test_divergence_on_any_data_ends_the_training_and_keeps_its_checkpoint(recipe, tmp_path, monkeypatch):
    inject_nan(monkeypatch, set(range(6, 1000)))
    with pytest.raises(DivergedError, match="and again after 3 returns to the last checkpoint"):
        run_training(recipe, tmp_path / "run", CPU)
    assert [path.name for path in (tmp_path / "run" / "training").glob("step-*")] == ["step-00000004"]
    assert sum("went back" in event for _, event in events(tmp_path / "run")) == 3
    inject_nan(monkeypatch, set())
    monkeypatch.undo()
    assert run_training(recipe, tmp_path / "run", CPU).step == 12


def test_a_stop_after_skipped_steps_saves_no_checkpoint(recipe, tmp_path, monkeypatch, expected_model, log_lines):
    """The same command resumes from the last checkpoint, because later weights may be diverging."""
    inject_nan(monkeypatch, {6, 7})

    def stop(line):
        if line.startswith("step 7: skipped"):
            signal.raise_signal(signal.SIGTERM)

    with logged_lines(stop), pytest.raises(Interrupted):
        run_training(recipe, tmp_path / "run", CPU)
    assert "stopped after step 7; the same command goes on from its last checkpoint" in log_lines
    assert [path.name for path in (tmp_path / "run" / "training").glob("step-*")] == ["step-00000004"]
    monkeypatch.undo()
    assert run_training(recipe, tmp_path / "run", CPU).step == 12
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected_model


def test_an_infinite_loss_is_null_in_the_metrics_log(tmp_path):
    log = MetricsLog(tmp_path)
    log._write({"step": 1, "perplexity": float("inf"), "loss": float("nan"), "rate": 0.5})
    log.close()
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "perplexity": null, "loss": null, "rate": 0.5}\n'


def test_divergence_before_the_first_checkpoint(recipe, tmp_path, monkeypatch):
    inject_nan(monkeypatch, set(range(1, 1000)))
    with pytest.raises(DivergedError, match=r"step 5, before there was a checkpoint"):
        run_training(recipe, tmp_path / "run", CPU)


def fail_writes(monkeypatch, writes, error=errno.ENOSPC):
    """Makes the writes of tensors whose number, from 1, is in `writes` fail after half the file."""
    save_file, calls = safetensors.torch.save_file, []

    def saved(tensors, path):
        calls.append(path)
        if len(calls) in writes:
            path.write_bytes(b"half")
            raise safetensors.SafetensorError(f"Error while serializing: I/O error: {error}")
        save_file(tensors, path)

    monkeypatch.setattr("safetensors.torch.save_file", saved)


def test_a_checkpoint_that_fails_is_logged_and_tried_again(recipe, tmp_path, monkeypatch, expected_model, log_lines):
    monkeypatch.setattr(checkpoints_module, "RETRY", 1)
    # The model of step 3, the weights of step 4, again after step 5, and those of step 6.
    fail_writes(monkeypatch, {1, 2, 3, 4})
    result = run_training(recipe, tmp_path / "run", CPU)
    assert result.step == 12
    failures = [line for line in log_lines if "could not" in line]
    assert len(failures) == 4
    assert "step 3: could not write the model" in failures[0]
    assert "step 4: could not save: " in failures[1]
    assert "optimiser.safetensors: I/O error" in failures[1] or "model.safetensors: I/O error" in failures[1]
    assert "Errno" not in failures[1]
    assert "there is none yet; trying again after step 5" in failures[1]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected_model


def test_a_checkpoint_by_the_clock_that_fails_is_tried_again_some_steps_later(micro, tmp_path, monkeypatch, log_lines):
    monkeypatch.setattr(checkpoints_module, "RETRY", 3)
    work_time = Mock(seconds=Mock(side_effect=itertools.count(100, 100)))
    monkeypatch.setattr("transduce.run.training_state.WorkTime", Mock(return_value=work_time))
    by_the_clock = load(micro / "recipe.yaml", ['training.save_every="1 min"', "training.validate_every=null"])
    fail_writes(monkeypatch, {1, 2, 3})
    run_training(by_the_clock, tmp_path / "run", CPU)
    failures = [line.partition(":")[0] for line in log_lines if "could not save" in line]
    assert failures == ["step 1", "step 4", "step 7"]


def test_a_disk_that_stays_full_keeps_the_last_checkpoint(recipe, tmp_path, monkeypatch):
    fail_writes(monkeypatch, set(range(5, 1000)))
    with pytest.raises(OSError, match="I/O error"):
        run_training(recipe, tmp_path / "run", CPU)
    monkeypatch.undo()
    result = run_training(recipe, tmp_path / "run", CPU)
    assert result.step == 12
    Model.read(tmp_path / "run")


@pytest.fixture(scope="module")
def dropout(micro, tmp_path_factory):
    """A recipe whose epochs are written anew, and the weights that it gives."""
    recipe = load(micro / "recipe.yaml", ["subwords.dropout=0.1", "training.micro_batches=1"])
    out = tmp_path_factory.mktemp("dropout")
    run_training(recipe, out, CPU)
    return recipe, (out / "model.safetensors").read_bytes()


def refusing_epochs(monkeypatch, refused):
    """The disk is full whenever an epoch after the first is written, while `refused` is not empty."""
    encode = ReencodedStore._encode_epoch

    def encoded(self, seed, epoch):
        if epoch and refused:
            refused.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        return encode(self, seed, epoch)

    monkeypatch.setattr(ReencodedStore, "_encode_epoch", encoded)


def test_an_epoch_that_a_full_disk_refuses_is_told_and_tried_again(dropout, tmp_path, monkeypatch, log_lines):
    recipe, weights = dropout
    monkeypatch.setattr(trainer, "RETRY_SECONDS", 0.01)
    refusing_epochs(monkeypatch, [1, 2])
    out = tmp_path / "run"
    assert run_training(recipe, out, CPU).step == 12
    (first, what), second = events(out)
    message = rf"could not write the next epoch: .*No space left on device: '{out}/training/store'; trying again in"
    assert re.match(message, what)
    assert second == (first, what)
    assert (out / "model.safetensors").read_bytes() == weights


def test_a_training_that_waits_for_space_stops_and_saves(dropout, tmp_path, monkeypatch, log_lines):
    recipe, weights = dropout
    refusing_epochs(monkeypatch, [1])

    def stop(line):
        if "could not write the next epoch" in line:
            signal.raise_signal(signal.SIGTERM)

    with logged_lines(stop), pytest.raises(Interrupted):
        run_training(recipe, tmp_path / "run", CPU)
    step = int(log_lines[-1].removeprefix("stopped after step ").split(";")[0])
    assert (tmp_path / "run" / "training" / f"step-{step:08}").is_dir()
    run_training(recipe, tmp_path / "run", CPU)
    assert f"going on after step {step}" in log_lines
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights


def test_a_file_size_limit_of_the_system(micro, tmp_path, trained):
    """The kernel refuses files above a size, and the training ends where it must save."""
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


def test_a_failure_of_tensorboard_loses_no_record(
    recipe, tmp_path, monkeypatch, uninterrupted, expected_model, log_lines
):
    add, calls = EventFile.add, []

    def refused(event_file, step, values):
        calls.append(step)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        add(event_file, step, values)

    monkeypatch.setattr(EventFile, "add", refused)
    run_training(recipe, tmp_path / "run", CPU)
    assert sum("could not write for TensorBoard" in line for line in log_lines) == 1
    steps = [
        [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        for run in (uninterrupted, tmp_path / "run")
    ]
    assert steps[0] == steps[1]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected_model


def test_a_failed_flush_of_the_metrics_log_is_a_failed_checkpoint(
    recipe, tmp_path, monkeypatch, expected_model, log_lines
):
    monkeypatch.setattr(checkpoints_module, "RETRY", 1)
    calls = []

    def refused(path):
        calls.append(path)
        if len(calls) == 1:
            raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr("transduce.run.metrics_log.flush_to_disk", refused)
    run_training(recipe, tmp_path / "run", CPU)
    assert [line for line in log_lines if "could not save" in line and "Input/output error" in line]
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected_model


def test_a_failed_write_of_the_metrics_log_stops_nothing(recipe, tmp_path, monkeypatch, expected_model, log_lines):
    opened = type(tmp_path).open

    def refused(path, mode="r", *arguments, **options):
        if path.name == "metrics.jsonl" and mode == "a":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return opened(path, mode, *arguments, **options)

    monkeypatch.setattr(type(tmp_path), "open", refused)
    run_training(recipe, tmp_path / "run", CPU)
    assert any("warning: could not write the metrics log" in line for line in log_lines)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == expected_model


def test_too_little_memory_is_reported_before_the_first_step(recipe, tmp_path, monkeypatch, log_lines):
    forward = TrainingObjective.forward

    def limited(self, source, *rest):
        if source.numel() > 200:
            raise torch.OutOfMemoryError("refused")
        return forward(self, source, *rest)

    monkeypatch.setattr(TrainingObjective, "forward", limited)
    with pytest.raises(RuntimeError, match=r"set training.micro_batches: 4 "):
        run_training(recipe, tmp_path / "run", CPU)
    assert not [line for line in log_lines if line.startswith("step")]
    smaller = recipe.model_copy(update={"training": recipe.training.model_copy(update={"micro_batches": 4})})
    assert run_training(smaller, tmp_path / "run", CPU).step == 12
