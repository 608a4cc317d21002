"""The entry points for training: `prepare`, `train` and `run_training`.

`prepare` learns the subwords and writes the token store. `train` is a generator that yields one record per training
step. `run_training` trains until the run ends and returns the result.
"""

import contextlib
import logging
import weakref
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from transduce.corpus.learned_subwords import check_tags
from transduce.corpus.planner import micro_batches_per_step
from transduce.corpus.readers import check_files
from transduce.corpus.store.preparation import PreparedCorpus, open_store
from transduce.corpus.store.preparation import prepare as prepare_corpus
from transduce.measure.metric_choice import MetricFunction
from transduce.model.model_spec import CustomModel, ModelBuilder
from transduce.model_directory.model import Model
from transduce.recipe.recipe import Recipe
from transduce.run.build import check_micro_batches
from transduce.run.fine_tuning import FineTuningReport, plan_start
from transduce.run.run_directory import (
    begin_run,
    check_can_go_on,
    check_is_run_or_empty,
    has_checkpoint,
    has_saved,
    move_aside,
)
from transduce.run.trackers import NO_TRACKERS, TrackerChoice, start_trackers
from transduce.run.trainer import Trainer, TrainResult
from transduce.runtime.device import choose_device, count_cores, keep_freed_memory, training_numerics
from transduce.runtime.distributed import ProcessGroup, join_process_group, restart_count, share_of_cores
from transduce.runtime.progress import quiet
from transduce.runtime.signals import StoppedTogether
from transduce.settings import did_you_mean
from transduce.storage.locks import exclusive_lock
from transduce.training.loop import StepRecord

_log = logging.getLogger("transduce")


class TrainOptions(NamedTuple):
    """Options of a training run that are not part of its recipe."""

    device: str = "auto"
    threads: int | None = None
    restart: bool = False  # moves an earlier run in the output directory aside and begins a new one
    start_from: Path | str | None = None  # a model directory whose weights and subwords the run starts with
    grow_vocabulary: int | None = None  # maximum number of subwords added to each side from the training corpora
    report: bool = True  # with `start_from`, evaluates both models on the test sets, before and after training
    trackers: TrackerChoice = NO_TRACKERS  # the trackers that receive the metrics during training
    accept_changes: bool = False  # lets a resumed run change the keys in `run_directory.ACCEPTED`


DEFAULTS = TrainOptions()


def prepare(
    recipe: Recipe,
    out: Path,
    start_from: Model | None = None,
    threads: int | None = None,
    growth: int | None = None,
) -> PreparedCorpus:
    """Learns the subwords, writes the token store into `out`, and returns the opened store.

    If the store is already complete, it is only opened. With `start_from`, the subwords of that model are used, and
    each side gains at most `growth` new ones. `threads` limits the number of CPU cores used.

    Raises ValueError if `out` holds anything other than a run, if the run in `out` was trained on different data, or
    if `out` holds a model whose checkpoints are missing.
    """
    check_is_run_or_empty(out)
    check_can_go_on(out)
    subwords = (start_from.source, start_from.target) if start_from else None
    return prepare_corpus(
        recipe.data,
        recipe.subwords,
        out / "training" / "store",
        threads=min(threads or count_cores(), count_cores()),
        existing_subwords=subwords,
        growth=growth,
        in_use=has_checkpoint(out),
    )


def train(
    recipe: Recipe | Path | str,
    out: Path | str,
    options: TrainOptions = DEFAULTS,
    *,
    model: ModelBuilder | None = None,
    metric: MetricFunction | None = None,
    **changes: Any,
) -> Generator[StepRecord, None, TrainResult]:
    """Trains a model as described by `recipe` and writes it to the model directory `out`.

    If `out` already holds a run with the same recipe, the run is resumed from its last checkpoint. `recipe` may also be
    the path of a recipe file.

    Training advances only while you iterate over the returned generator, which yields one record per step and returns
    the result of the run.

    Keyword arguments in `changes`, such as `device="cpu"`, override the fields of `options` with the same names.
    `model` is a function that builds your own model for a recipe with `model.kind: custom`; it must also be passed when
    the run is resumed. `metric(sources, translations, references)` replaces `training.validate_by` as the
    validation score; higher scores are better.

    Progress is logged to the logger `transduce`, on rank 0 only.

    Closing the generator stops the run without saving a checkpoint. The generator can run in any thread, but it handles
    signals only in the main thread. While it is open, it changes the number of threads, deterministic mode and the
    treatment of subnormal numbers for the whole process; the earlier settings are restored when it is closed.

    Raises ValueError if there is a fault in the recipe, the data files or `out`, DivergedError if the loss stays
    infinite or NaN, Interrupted after a signal, and OSError if the final checkpoint cannot be written. Checkpoints that
    were saved before the error are kept.
    """
    for name in changes:
        if name not in TrainOptions._fields:
            names = ", ".join(TrainOptions._fields)
            raise TypeError(
                f"`train` has no option `{name}`{did_you_mean(name, TrainOptions._fields) or ';'} options: {names}"
            )
    options = options._replace(**changes)
    if isinstance(recipe, Path | str):
        recipe = Recipe.load(recipe, start_from=options.start_from)
    begun: list[bool] = []
    steps = _train(recipe, Path(out), options, model, metric, begun)
    weakref.finalize(steps, _warn_unless_begun, begun)
    return steps


def _warn_unless_begun(begun: list[bool]) -> None:
    """Logs a warning that nothing was trained, if the generator that `train` returned was never iterated over."""
    if not begun:
        _log.warning(
            "warning: `train` was called, and nothing is trained until its steps are read: `for step in train(…)`"
        )


def _train(
    recipe: Recipe,
    out: Path,
    options: TrainOptions,
    model: ModelBuilder | None,
    metric: MetricFunction | None,
    begun: list[bool],
) -> Generator[StepRecord, None, TrainResult]:
    """Implements `train`; appends to `begun` as soon as the caller starts to iterate."""
    begun.append(True)
    recipe = _with_builder(recipe, model)
    options.trackers.check()
    group, own_device = join_process_group(choose_device(options.device))
    record, directory = plan_start(recipe, out, options.start_from, options.grow_vocabulary, restart=options.restart)
    base = Model.read(directory) if directory else None
    keep_freed_memory()
    if base is not None:
        check_tags(recipe.data, base.source)
    tests = FineTuningReport(recipe, out, own_device)
    with contextlib.ExitStack() as stack:
        stack.push(partial(_close_group, group))
        if not group.is_rank_zero:
            stack.enter_context(quiet())
        stack.enter_context(training_numerics(own_device, options.threads or share_of_cores()))
        if base is None and options.start_from is not None:
            _log.info("--from is ignored: this training has begun and goes on with its own weights")

        def begin() -> None:
            training = recipe.training
            restarts = options.restart and restart_count() == 0
            is_resumed = has_saved(out) and not restarts
            # The number is checked before the slow preparation, unless it is `auto` and depends on the memory of a GPU
            # or on the checkpoint of a resumed run.
            if training.micro_batches != "auto" or (own_device.type == "cpu" and not is_resumed):
                micro_batches = micro_batches_per_step(training.max_batch_tokens, training.micro_batches)
                check_micro_batches(micro_batches, group.size, is_resumed=is_resumed)
            stack.enter_context(exclusive_lock(out, "training"))
            check_files(*recipe.data.train, *recipe.data.validations)
            if restarts:
                move_aside(out)
            started = record.model_dump_json(indent=2) if record else None
            if accepted := begin_run(recipe, out, started, accept_changes=options.accept_changes):
                _log.info(f"the recipe changes: {'; '.join(accepted)}; the one before is kept in {out / 'training'}")
            prepare(recipe, out, base, options.threads, record.grow_vocabulary if record else None)
            if options.report:
                tests.measure_before()

        group.on_rank_zero(begin, slow=True)
        prepared = open_store(out / "training" / "store")
        trainer = Trainer(recipe, out, prepared, own_device, group, metric)
        if record is not None:
            trainer.published.inherit_languages(record.start.config)
        _start_trackers(trainer, options.trackers, stack)
        result = yield from trainer.train(base)
        if options.report:
            group.on_rank_zero(lambda: tests.report(result.step), slow=True)
        return result


def _with_builder(recipe: Recipe, builder: ModelBuilder | None) -> Recipe:
    """Returns the recipe with `builder` as the function that builds its custom model.

    A recipe whose model is not custom is returned unchanged. Raises ValueError if `builder` is given for such a recipe,
    if nothing builds a custom model, or if a custom model is to be sharded.
    """
    spec = recipe.model
    if not isinstance(spec, CustomModel):
        if builder is not None:
            raise ValueError("model= is for a recipe with `model: {kind: custom, name: NAME, d_model: WIDTH}`")
        return recipe
    if recipe.training.parallel == "sharded":
        raise ValueError("a custom model cannot be sharded: leave `training.parallel` at its default")
    return recipe.replaced(model=spec.with_builder(builder or spec.builder))


def _start_trackers(trainer: Trainer, choice: TrackerChoice, stack: contextlib.ExitStack) -> None:
    """Starts the chosen trackers on rank 0, and registers them with `stack`, which closes them."""
    if trainer.group.is_rank_zero:
        trainer.metrics_log.trackers = start_trackers(choice, trainer.out, trainer.recipe.as_dictionary())
        for tracker in trainer.metrics_log.trackers:
            stack.callback(tracker.close)


def run_training(recipe: Recipe, out: Path, options: TrainOptions = DEFAULTS) -> TrainResult:
    """Trains until the run ends and returns its result.

    The arguments and the exceptions raised are those of `train`.
    """
    steps = train(recipe, out, options)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: TrainResult = end.value
            return result


def _close_group(group: ProcessGroup, kind: type[BaseException] | None, *_: object) -> None:
    """Leaves the process group, unless this process has failed.

    After a failure the group is not closed, because this process would wait for the other processes indefinitely.
    """
    if kind is None or issubclass(kind, StoppedTogether | GeneratorExit):
        group.close()
