"""A dry run: times a few steps and one validation of a run, and estimates its duration; no files are kept."""

import bisect
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from transduce.corpus.batch_ramp import BatchRamp
from transduce.corpus.learned_subwords import check_tags
from transduce.corpus.readers import check_files
from transduce.evaluation.validation import ValidationResult
from transduce.model_directory.model import Model
from transduce.recipe.recipe import Recipe
from transduce.run.build import build_planner, count_steps
from transduce.run.fine_tuning import plan_start
from transduce.run.train import TrainOptions, prepare
from transduce.run.trainer import Trainer
from transduce.runtime.device import choose_device, keep_freed_memory, training_numerics
from transduce.runtime.memory import peak_memory
from transduce.runtime.progress import quiet
from transduce.training.loop import StepRecord
from transduce.training.training_settings import Training

MAX_STEPS = 2**53  # most steps that a recipe may ask for
WARM_UP = 5  # first steps, which are not measured
MIN_STEPS, MIN_SECONDS = 10, 5.0  # least that is measured, whichever takes longer


def whole_steps(training: Training, steps: int) -> float:
    """Counts the first `steps` of a run in full-size steps; steps in the ramp of `batch_tokens` are smaller."""
    ramp = training.batch_tokens
    return ramp.whole_steps(steps) if isinstance(ramp, BatchRamp) else steps


class Pace(NamedTuple):
    """Measured seconds for a full-size step, after the ramp of `batch_tokens`, and for a validation."""

    step: float
    validation: float

    def seconds(self, training: Training, steps: int) -> float:
        """Returns the duration of the first `steps` steps of a run, including validations."""
        validations = 0 if training.validate_every is None else steps // training.validate_every
        return whole_steps(training, steps) * self.step + validations * self.validation

    def steps_within(self, training: Training, seconds: float) -> int:
        """Returns the largest number of steps that fit into `seconds`, including validations."""
        most = 1
        while most < MAX_STEPS and self.seconds(training, most) <= seconds:
            most *= 2
        return bisect.bisect_right(range(most), seconds, key=lambda steps: self.seconds(training, steps)) - 1


class DryRun(NamedTuple):
    """What a run needs: steps, time, memory and disk space."""

    parameters: int
    pairs: int
    tokens_per_epoch: int  # target tokens, end symbols included
    steps_per_epoch: int
    tokens_per_second: float  # target tokens, without validations
    pace: Pace
    steps: int | None  # at most; None if only `patience` or a signal ends the run
    epochs: float | None
    seconds: float | None  # with validations
    peak_memory: float  # bytes, as in `runtime.memory`
    checkpoint_bytes: int
    checkpoints: int  # number that stays on disk


def dry_run(recipe: Recipe, out: Path, options: TrainOptions) -> DryRun:
    """Trains `recipe` for a few steps in a temporary directory, and returns what the run into `out` would need.

    Raises ValueError for faults in the recipe and its files, and RuntimeError if memory does not suffice. It does not
    check whether `out` holds another run. It measures a single process.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ValueError("--dry-run measures one process: call it without torchrun")
    device = choose_device(options.device)
    record, directory = plan_start(recipe, out, options.start_from, options.grow_vocabulary, restart=options.restart)
    if directory is None and record is not None:  # a resumed run no longer needs its first model, but a dry run does
        directory = Path(record.start.directory)
    base = Model.read(directory) if directory else None
    if base is not None:
        check_tags(recipe.data, base.source)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder, training_numerics(device, options.threads):
        check_files(*recipe.data.train, *recipe.data.validations)
        growth = record.grow_vocabulary if record else None
        prepared = prepare(recipe, Path(folder), base, options.threads, growth)
        with quiet():
            # The timed steps are as large as after a ramp, and there are no validations or checkpoints.
            settings = {"batch_tokens": recipe.training.max_batch_tokens, "steps": MAX_STEPS, "save_every": MAX_STEPS}
            ends = dict.fromkeys(("epochs", "minutes", "patience", "validate_every"))
            measured = recipe.replaced(training=recipe.training.replaced(**settings, **ends))
            trainer = Trainer(measured, Path(folder), prepared, device)
            return _measure(trainer, recipe.training, base)


def _measure(trainer: Trainer, training: Training, base: Model | None) -> DryRun:
    """Measures a run with the settings `training`; `trainer` takes the steps that are timed."""
    records = list(_timed_steps(trainer, base))
    tokens_per_second = sum(step.tokens for step in records) / sum(step.seconds for step in records)
    planner = build_planner(trainer.prepared, training, trainer.precision.device, trainer.model)
    step_seconds = planner.tokens_per_epoch / planner.steps_per_epoch / tokens_per_second
    pace = Pace(step_seconds, 0.0 if trainer.validation is None else validation_seconds(trainer)[0])
    limits = [count_steps(training, planner)]
    if training.minutes is not None:
        limits.append(pace.steps_within(training, 60 * training.minutes))
    steps = min((limit for limit in limits if limit is not None), default=None)
    # The names of the weights and of the optimiser's state do not clash.
    checkpoint = {**trainer.optimiser.weights(), **trainer.optimiser.state()}
    return DryRun(
        parameters=sum(parameter.numel() for parameter in trainer.model.parameters()),
        pairs=len(trainer.prepared.train),
        tokens_per_epoch=planner.tokens_per_epoch,
        steps_per_epoch=planner.steps_per_epoch,
        tokens_per_second=tokens_per_second,
        pace=pace,
        steps=steps,
        epochs=None if steps is None else whole_steps(training, steps) / planner.steps_per_epoch,
        seconds=None if steps is None else pace.seconds(training, steps),
        peak_memory=peak_memory(trainer.precision.device),
        checkpoint_bytes=sum(tensor.numel() * tensor.element_size() for tensor in checkpoint.values()),
        checkpoints=training.checkpoints_to_keep,
    )


def _timed_steps(trainer: Trainer, base: Model | None) -> Iterator[StepRecord]:
    """Yields the steps that are measured, after the warm-up."""
    with contextlib.closing(trainer.train(base)) as steps:
        for _ in itertools.islice(steps, WARM_UP):
            pass
        began = time.monotonic()
        for count, record in enumerate(steps, 1):
            yield record
            if count >= MIN_STEPS and time.monotonic() - began >= MIN_SECONDS:
                return


def validation_seconds(trainer: Trainer) -> tuple[float, ValidationResult]:
    """Estimates how long a validation of a trained model takes; also returns the validation of `trainer`'s model.

    A barely trained model writes translations up to the length limit. The time for translating is therefore scaled to
    the length of the references, because a search takes one step for each token.
    """
    validation, model = trainer.validation, trainer.model
    assert validation is not None
    began = time.monotonic()
    validation(model, translate=False)
    loss_seconds = time.monotonic() - began
    began = time.monotonic()
    result = validation(model)
    search_seconds = max(0.0, time.monotonic() - began - loss_seconds)
    encode = trainer.prepared.target.encode
    written, expected = (
        sum(len(line) + 1 for line in encode(side)) for side in (result.outputs, validation.corpus.target)
    )
    return loss_seconds + search_seconds * min(1.0, expected / written), result
