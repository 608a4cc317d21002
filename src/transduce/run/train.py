"""Entry points of training: `prepare` writes the store, `train` yields steps, `run_training` trains to the end."""

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
from transduce.storage.locks import exclusive_lock
from transduce.training.loop import StepRecord

_log = logging.getLogger("transduce")


class TrainOptions(NamedTuple):
    """Options of a run that are not in its recipe."""

    device: str = "auto"
    threads: int | None = None
    restart: bool = False  # moves an earlier run aside
    start_from: Path | str | None = None  # a model directory; the run begins with its weights and subwords
    grow_vocabulary: int | None = None  # most subwords that each side gains from the training corpora
    report: bool = True  # with `start_from`, measures the test sets before and after
    trackers: TrackerChoice = NO_TRACKERS  # receive the metrics while the run trains
    accept_changes: bool = False  # a resumed run may change the keys of `run_directory.ACCEPTED`


DEFAULTS = TrainOptions()


def prepare(
    recipe: Recipe,
    out: Path,
    start_from: Model | None = None,
    threads: int | None = None,
    growth: int | None = None,
) -> PreparedCorpus:
    """Learns subwords and writes the token store into `out`, unless it is complete already; returns the opened store.

    With `start_from` the subwords are that model's, plus at most `growth` new ones. `threads` limits the number of
    cores used. Raises ValueError if `out` holds anything other than a run, if a run has begun on a store of other data,
    or if `out` has a model whose checkpoints are gone.
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
    """Trains `recipe`, or the recipe in a file, into the model directory `out`, or resumes the run there.

    It trains while you read the generator, which yields one record per step and returns the result.

    `changes` are fields of `TrainOptions`, for example `device="cpu"`, that replace fields of `options`.
    `model` builds your own model for a recipe with `model.kind: custom`; a resumed run needs it again.
    `metric(sources, translations, references)` scores validations instead of `training.validate_by`; higher is
    better.

    Progress is logged by the logger `transduce`, on rank 0 only.

    Closing the generator stops the run without a checkpoint; the same call resumes from the last checkpoint. The
    generator runs in any thread, but handles signals only in the main thread. While it is open, it changes the
    process's settings for threads, deterministic algorithms and subnormal numbers; afterwards it restores them.

    Raises ValueError for faults in the recipe, the files or `out`, DivergedError if the loss is not finite on any data,
    Interrupted after a signal, and OSError if the last checkpoint cannot be written. Saved checkpoints stay.
    """
    options = options._replace(**changes)
    if isinstance(recipe, Path | str):
        recipe = Recipe.load(recipe, start_from=options.start_from)
    begun: list[bool] = []
    steps = _train(recipe, Path(out), options, model, metric, begun)
    weakref.finalize(steps, _warn_unless_begun, begun)
    return steps


def _warn_unless_begun(begun: list[bool]) -> None:
    """Warns if nobody has read the records of a run."""
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
    """Does the work of `train`, and sets `begun` to say that it has started."""
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
            # Checked before the slow preparation, unless `auto` depends on a GPU or on a checkpoint.
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
    """Adds the function that builds the recipe's custom model; raises ValueError if only one of the two is given."""
    spec = recipe.model
    if not isinstance(spec, CustomModel):
        if builder is not None:
            raise ValueError("model= is for a recipe with `model: {kind: custom, name: NAME, d_model: WIDTH}`")
        return recipe
    if recipe.training.parallel == "sharded":
        raise ValueError("a custom model cannot be sharded: leave `training.parallel` at its default")
    return recipe.replaced(model=spec.with_builder(builder or spec.builder))


def _start_trackers(trainer: Trainer, choice: TrackerChoice, stack: contextlib.ExitStack) -> None:
    """Starts the trackers on rank 0; they end with `stack`."""
    if trainer.group.is_rank_zero:
        trainer.metrics_log.trackers = start_trackers(choice, trainer.out, trainer.recipe.as_dictionary())
        for tracker in trainer.metrics_log.trackers:
            stack.callback(tracker.close)


def run_training(recipe: Recipe, out: Path, options: TrainOptions = DEFAULTS) -> TrainResult:
    """Trains to the end and returns the result; raises the errors of `train`."""
    steps = train(recipe, out, options)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: TrainResult = end.value
            return result


def _close_group(group: ProcessGroup, kind: type[BaseException] | None, *_: object) -> None:
    """Leaves the process group, except after an error of this process: waiting for the others would then hang."""
    if kind is None or issubclass(kind, StoppedTogether | GeneratorExit):
        group.close()
