"""A training survives a validation for which memory does not suffice, and stops between steps."""

import json

import pytest
import torch

from transduce.evaluation.validation import Validation
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run.checkpoints import Checkpoints
from transduce.run.train import TrainOptions, run_training, train

CPU = TrainOptions("cpu", 1)


def refuse(*_arguments: object) -> None:
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory")


def test_a_validation_without_memory_is_logged_after_its_checkpoint_is_saved(micro, tmp_path, monkeypatch) -> None:
    recipe = load(micro / "recipe.yaml", ["training.steps=6", "training.save_every=3", "training.average=null"])
    saved_at_validation = []

    def validate(self, model):
        saved_at_validation.append(Checkpoints(tmp_path / "run" / "training").steps())
        refuse()

    monkeypatch.setattr(Validation, "__call__", validate)
    result = run_training(recipe, tmp_path / "run", CPU)
    assert (result.step, result.weights.kind) == (6, "last")
    assert [steps[-1] for steps in saved_at_validation] == [3, 6]
    records = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    events = [record["event"] for record in records if "event" in record]
    assert len(events) == 2
    assert all(event.startswith("could not validate: ") for event in events)
    Model.read(tmp_path / "run")


def test_the_longest_pair_of_the_validation_is_tried_before_the_first_step(micro, tmp_path, monkeypatch) -> None:
    recipe = load(micro / "recipe.yaml", ["training.steps=2"])
    monkeypatch.setattr(Validation, "_batch_sums", refuse)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        next(train(recipe, tmp_path / "run", device="cpu", threads=1))


def test_a_training_that_is_stopped_before_its_validation_validates_when_it_resumes(micro, tmp_path, monkeypatch):
    recipe = load(micro / "recipe.yaml", ["training.save_every=3", "training.average=null"])
    undisturbed = run_training(recipe, tmp_path / "undisturbed", CPU)
    with monkeypatch.context() as patch:
        patch.setattr(Validation, "__call__", lambda self, model: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run_training(recipe, tmp_path / "run", CPU)
    assert run_training(recipe, tmp_path / "run", CPU).weights == undisturbed.weights
    model = "model.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (tmp_path / "undisturbed" / model).read_bytes()


def test_a_generator_that_is_closed_leaves_a_training_that_resumes(micro, tmp_path) -> None:
    recipe = load(micro / "recipe.yaml")
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    steps = train(recipe, tmp_path / "run", device="cpu", threads=1)
    assert [next(steps).step for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    steps.close()
    assert (torch.get_num_threads(), torch.get_deterministic_debug_mode()) == (threads, mode)
    assert Checkpoints(tmp_path / "run" / "training").steps() == [4]
    assert run_training(recipe, tmp_path / "run", CPU).step == 12
