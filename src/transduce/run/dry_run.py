"""Dry runs, which estimate the duration, the memory and the disk space of a run.

A dry run measures a few training steps and one validation in a temporary directory, and keeps no files.
"""

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

MAX_STEPS = 2**53  # the largest number of steps that a recipe may specify
WARM_UP = 5  # number of steps at the beginning that are not measured
MIN_STEPS, MIN_SECONDS = 10, 5.0  # at least this many steps, and at least this many seconds, are measured


def whole_steps(training: Training, steps: int) -> float:
    """Returns the number of full-size steps to which the first `steps` steps of a run are equivalent.

    The result is smaller than `steps` if `batch_tokens` is a ramp, because the steps of a ramp are smaller.
    """
    ramp = training.batch_tokens
    return ramp.whole_steps(steps) if isinstance(ramp, BatchRamp) else steps


class Pace(NamedTuple):
    """The measured durations of a training step and a validation, in seconds."""

    step: float  # duration of a full-size step, that is, of a step after the ramp if `batch_tokens` is one
    validation: float

    def seconds(self, training: Training, steps: int) -> float:
        """Returns the estimated duration in seconds of the first `steps` steps of a run, including validations."""
        validations = 0 if training.validate_every is None else steps // training.validate_every
        return whole_steps(training, steps) * self.step + validations * self.validation

    def steps_within(self, training: Training, seconds: float) -> int:
        """Returns the estimated number of steps that a run can take in `seconds` seconds, including validations."""
        most = 1
        while most < MAX_STEPS and self.seconds(training, most) <= seconds:
            most *= 2
        return bisect.bisect_right(range(most), seconds, key=lambda steps: self.seconds(training, steps)) - 1


class DryRun(NamedTuple):
    """The estimated requirements of a run: steps, time, memory and disk space."""

    parameters: int  # number of parameters of the model
    pairs: int  # number of training pairs
    tokens_per_epoch: int  # target tokens, including EOS
    steps_per_epoch: int
    tokens_per_second: float  # target tokens per second of training, not counting validations
    pace: Pace
    steps: int | None  # maximum number of steps; None if only `patience` or a signal ends the run
    epochs: float | None  # number of epochs in `steps` steps
    seconds: float | None  # duration of `steps` steps, including validations
    peak_memory: float  # in bytes; see `transduce.runtime.memory.peak_memory`
    checkpoint_bytes: int  # size of one checkpoint
    checkpoints: int  # number of checkpoints that are kept on disk


def dry_run(recipe: Recipe, out: Path, options: TrainOptions) -> DryRun:
    """Trains for a few steps in a temporary directory, and estimates what a run of `recipe` in `out` would require.

    Only a run of a single process can be measured. The function does not check whether `out` holds another run. Raises
    ValueError if there is a fault in the recipe or its files, and RuntimeError if memory does not suffice.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise ValueError("--dry-run measures one process: call it without torchrun")
    device = choose_device(options.device)
    record, directory = plan_start(recipe, out, options.start_from, options.grow_vocabulary, restart=options.restart)
    if directory is None and record is not None:  # unlike a resumed run, a dry run needs the model to start from
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
            # The timed steps are full-size, even if the recipe begins with a ramp, and are not interrupted by
            # validations or checkpoints.
            settings = {"batch_tokens": recipe.training.max_batch_tokens, "steps": MAX_STEPS, "save_every": MAX_STEPS}
            ends = dict.fromkeys(("epochs", "minutes", "patience", "validate_every"))
            measured = recipe.replaced(training=recipe.training.replaced(**settings, **ends))
            trainer = Trainer(measured, Path(folder), prepared, device)
            return _measure(trainer, recipe.training, base)


def _measure(trainer: Trainer, training: Training, base: Model | None) -> DryRun:
    """Times steps of `trainer`, and estimates the requirements of a run with the settings `training`."""
    records = list(_timed_steps(trainer, base))
    tokens_per_second = sum(step.tokens for step in records) / sum(step.seconds for step in records)
    planner = build_planner(trainer.prepared, training, trainer.precision.device, trainer.model)
    step_seconds = planner.tokens_per_epoch / planner.steps_per_epoch / tokens_per_second
    pace = Pace(step_seconds, 0.0 if trainer.validation is None else validation_seconds(trainer)[0])
    limits = [count_steps(training, planner)]
    if training.minutes is not None:
        limits.append(pace.steps_within(training, 60 * training.minutes))
    steps = min((limit for limit in limits if limit is not None), default=None)
    # The two dictionaries can be merged, because their keys are distinct.
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
    """Trains the model, and yields a record for each measured step, that is, each step after the warm-up."""
    with contextlib.closing(trainer.train(base)) as steps:
        for _ in itertools.islice(steps, WARM_UP):
            pass
        began = time.monotonic()
        for count, record in enumerate(steps, 1):
            yield record
            if count >= MIN_STEPS and time.monotonic() - began >= MIN_SECONDS:
                return


def validation_seconds(trainer: Trainer) -> tuple[float, ValidationResult]:
    """Estimates how many seconds a validation of a trained model will take.

    Also returns the result of validating the current model of `trainer`. Because that model has hardly been trained, it
    may generate translations as long as the length limit allows. The decoding time is therefore scaled down to the
    length of the references, since decoding takes one step per token.
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
