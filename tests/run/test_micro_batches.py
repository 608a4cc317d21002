"""`training.micro_batches: auto` depends on the device; a run keeps the number that it was begun with."""

import itertools
import json
import re

import numpy as np
import pytest
import torch

from transduce.bench import timing
from transduce.bench import training_speed as bench_module
from transduce.bench.training_speed import bench_training
from transduce.commands import bench as bench_command
from transduce.corpus.store.preparation import open_store
from transduce.recipe.recipe import load
from transduce.run import build, trainer
from transduce.run.train import TrainOptions, run_training
from transduce.run.trainer import Trainer
from transduce.runtime.device import gpu_memory
from transduce.training import memory_check

CPU = torch.device("cpu")
GPU = torch.device("cuda")
CHANGES = ["training.batch_tokens=8200", "training.micro_batches=auto"]
GIB = 2**30


@pytest.fixture
def simulate(monkeypatch):
    """Has a CPU plan like a GPU with so many bytes of memory, or like itself again with None."""
    build_planner = build.build_planner

    def simulated(memory):
        def planned(prepared, settings, device, *rest):
            return build_planner(prepared, settings, GPU if memory is not None else device, *rest)

        monkeypatch.setattr(build, "gpu_memory", lambda device: memory)
        for module in (trainer, bench_module):
            monkeypatch.setattr(module, "build_planner", planned)

    return simulated


def arrays(planner):
    """Returns the tokens of the first six steps, by micro-batch."""
    steps = itertools.islice(planner.steps(), 6)
    return [[[tokens.tolist() for tokens in batch] for batch in step.micro_batches] for step in steps]


@pytest.mark.parametrize(("memory", "micro_batches"), [(None, 2), (80 * GIB, 1), (2**20, 2)])
def test_bench_measures_the_steps_that_a_run_takes(
    simulate, micro, trained, tmp_path, monkeypatch, memory, micro_batches
):
    simulate(memory)
    monkeypatch.setattr(timing, "MATRIX_SIZES", {"cpu": 64})
    recipe = load(micro / "recipe.yaml", CHANGES)
    prepared = open_store(trained / "training" / "store")
    run = Trainer(recipe, tmp_path, prepared, CPU)

    planners = []
    build_planner = bench_module.build_planner
    monkeypatch.setattr(
        bench_module, "build_planner", lambda *arguments: planners.append(build_planner(*arguments)) or planners[-1]
    )
    figures = bench_training(recipe, "micro", CPU, 1)
    assert planners[0].shapes == run.planner.shapes
    assert arrays(planners[0]) == arrays(run.planner)
    assert run.planner.micro_batches == figures["settings"]["details"]["micro_batches"] == micro_batches
    assert all(np.prod(shape) <= 8200 // micro_batches for shape in run.planner.shapes)


def test_bench_of_a_preset_leaves_the_number_to_the_planner():
    recipe, _ = bench_command._recipe(None, "base", None, [])
    assert recipe.training.micro_batches == "auto"
    recipe, _ = bench_command._recipe(None, "base", None, ["training.micro_batches=3"])
    assert recipe.training.micro_batches == 3


@pytest.mark.parametrize(("begun", "resumed", "micro_batches"), [(80 * GIB, None, 1), (None, 80 * GIB, 2)])
def test_a_run_keeps_its_number_on_another_device(simulate, micro, tmp_path, begun, resumed, micro_batches):
    """Another number would be another training: the randomness of a micro-batch follows from its number."""
    planned = []

    def train(memory, steps):
        simulate(memory)
        changes = [*CHANGES, f"training.steps={steps}", "training.save_every=2", "training.validate_every=null"]
        run_training(load(micro / "recipe.yaml", changes), tmp_path / "run", TrainOptions(device="cpu"))
        prepared = open_store(tmp_path / "run" / "training" / "store")
        run = Trainer(load(micro / "recipe.yaml", changes), tmp_path / "run", prepared, CPU)
        state = run._begin(None)
        assert state.micro_batches == run.planner.micro_batches
        planned.append((state.step, run.planner.micro_batches))

    train(begun, 2)
    train(resumed, 4)
    assert planned == [(2, micro_batches), (4, micro_batches)]


@pytest.mark.parametrize("begun", ["auto", 1])
def test_a_run_goes_on_with_less_memory_as_the_message_says(simulate, micro, tmp_path, monkeypatch, begun, log_lines):
    """The remedy of the message was refused: "was begun with another recipe"."""
    simulate(80 * GIB)
    out, planned = tmp_path / "run", []
    plan, fits = Trainer._plan_as_recorded, memory_check._fits

    def train(micro_batches, steps, *, accept_changes=False):
        changes = [
            *("training.batch_tokens=8200", f"training.micro_batches={micro_batches}", f"training.steps={steps}"),
            *("training.save_every=2", "training.validate_every=null"),
        ]
        options = TrainOptions(device="cpu", accept_changes=accept_changes)
        run_training(load(micro / "recipe.yaml", changes), out, options)

    def recorded(run, state):
        planned.append((state.micro_batches, plan(run, state).micro_batches, run.planner.micro_batches))
        assert run.horizon._planner is run.planner
        return state._replace(micro_batches=planned[-1][1])

    monkeypatch.setattr(Trainer, "_plan_as_recorded", recorded)
    train(begun, 2)
    monkeypatch.setattr(memory_check, "_fits", lambda *parts: parts[2] * parts[3] <= 4100 and fits(*parts))
    with pytest.raises(RuntimeError, match="do not fit into the memory of cpu") as refused:
        train(begun, 4)
    number = re.search(r": set training\.micro_batches: (\d+) and add --accept-changes ", str(refused.value))[1]
    with pytest.raises(ValueError, match="with --accept-changes"):
        train(number, 4)
    train(number, 4, accept_changes=True)
    assert f"the recipe changes: `training.micro_batches` was {json.dumps(begun)} and is 2; " in " ".join(log_lines)
    train("auto", 6, accept_changes=True)
    assert planned == [(1, 1, 1), (1, 2, 2), (2, 2, 2)]


def test_a_first_start_with_too_little_memory_needs_no_consent(simulate, micro, tmp_path, monkeypatch):
    simulate(80 * GIB)
    monkeypatch.setattr(memory_check, "_fits", lambda objective, precision, rows, length: rows * length <= 4100)
    with pytest.raises(RuntimeError, match=r": set training\.micro_batches: 2 \(steps as large"):
        run_training(load(micro / "recipe.yaml", CHANGES), tmp_path / "run", TrainOptions(device="cpu"))
    changes = ["training.micro_batches=2", "training.steps=1", "training.validate_every=null"]
    monkeypatch.undo()
    recipe = load(micro / "recipe.yaml", [*CHANGES, *changes])
    assert run_training(recipe, tmp_path / "run", TrainOptions(device="cpu")).step == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_memory_of_a_gpu_is_asked():
    assert gpu_memory(GPU) == torch.cuda.mem_get_info()[1]
