"""A run: prepare, train, validate, save, keep the best, and write the model directory.

What `transduce train`, the paper's tables and a notebook all call. The same call on the same directory goes on where it
was stopped, by a signal or by `kill −9`, and ends with the bits of a run that was never stopped.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.corpus import Planner, Prepared, check_files, micro_batches_per_step, open_store, subwords_files
from transduce.corpus import prepare as prepare_corpus
from transduce.model import TranslationModel, Vocabulary, build_without_weights
from transduce.model.readout import Smoothing
from transduce.model_directory import Model, Weights, weights_of
from transduce.recipe import Recipe
from transduce.runtime.device import (
    choose_device,
    compile_on_gpu,
    count_cores,
    describe_environment,
    flush_subnormals,
    keep_freed_memory,
    set_threads,
    use_deterministic_algorithms,
)
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup, join_process_group, restart_count
from transduce.runtime.signals import Interrupted, collect_signals
from transduce.storage.checksums import checksums_of_files
from transduce.storage.locks import exclusive_lock
from transduce.trainer.checkpointing import Checkpointer, TrainingEnvironment
from transduce.trainer.checkpoints import Checkpoints
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.model_selection import ModelSelection, gather_model
from transduce.trainer.publishing import ModelPublisher
from transduce.trainer.run_directory import begin_run, check_is_run_or_empty, keep_aside
from transduce.trainer.training_state import TrainingState
from transduce.trainer.validation import Validation, read_parallel_text
from transduce.training import (
    DivergenceDetector,
    FlatAdam,
    LabelSmoothing,
    Optimiser,
    Precision,
    StepRecord,
    check_memory,
    count_rollback,
    training_steps,
)

__all__ = ["TrainOptions", "TrainResult", "prepare", "train"]

Say = Callable[[str], None]


class TrainOptions(NamedTuple):
    """How to run a recipe, where its result does not depend on it."""

    device: str = "auto"
    threads: int | None = None
    restart: bool = False
    start_from: Path | None = None  # a model directory whose weights and subwords the training begins with


DEFAULTS = TrainOptions()


class TrainResult(NamedTuple):
    """How a run ended."""

    step: int
    tokens: int  # target words trained on, end symbols included
    seconds: float  # of training, validating and saving, over all starts
    reason: str
    weights: Weights


def prepare(
    recipe: Recipe, out: Path, say: Say, start_from: Model | None = None, threads: int | None = None
) -> Prepared:
    """Learns the subwords, or takes those of the model to start from, and writes the store, unless it is there.

    On all cores that this process may use, or as many as `threads`. A `ValueError` where something else than a run
    stands in `out`, or a training has begun on the store that is there and the data is no longer what that was made of.
    """
    check_is_run_or_empty(out)
    return prepare_corpus(
        recipe.data,
        recipe.subwords,
        out / "training" / "store",
        threads=threads or count_cores(),
        say=say,
        given=(start_from.source, start_from.target) if start_from else None,
        in_use=any((out / "training").glob("step-*")),
    )


def train(recipe: Recipe, out: Path, options: TrainOptions = DEFAULTS, say: Say = print) -> TrainResult:
    """Trains `recipe` into the model directory `out`, or goes on with it.

    Raises `ValueError` for what the user must mend, `DivergedError` when the loss is no longer a number whatever the
    data, and `Interrupted` after a signal; all that was saved stays. A checkpoint that cannot be written is told and
    tried again; an `OSError` is raised only where it was the last.
    """
    flush_subnormals()
    group, device = join_process_group(choose_device(options.device))
    start_from = Model.read(options.start_from) if options.start_from else None
    set_threads(options.threads)
    keep_freed_memory()
    use_deterministic_algorithms(device)
    speak = say if group.is_rank_zero else _silent
    with contextlib.ExitStack() as stack:
        stack.push(partial(_let_go, group))

        def claimed() -> None:
            _check_micro_batches(recipe, group.size)
            stack.enter_context(exclusive_lock(out, "training"))
            check_files(recipe.data)
            if options.restart and restart_count() == 0:
                keep_aside(out, say)
            begin_run(recipe, out)
            prepare(recipe, out, say, start_from, options.threads)

        group.on_rank_zero(claimed, slow=True)
        prepared = open_store(out / "training" / "store")
        return Trainer(recipe, out, prepared, device, speak, group).train(start_from)


def _let_go(group: ProcessGroup, kind: type[BaseException] | None, *_: object) -> None:
    """Leaves the other processes, which leave too; where this one has failed, by itself perhaps, it may not wait."""
    if kind is None or issubclass(kind, Interrupted):
        group.close()


def _check_micro_batches(recipe: Recipe, processes: int) -> None:
    """Every process needs a micro-batch of each step."""
    micro_batches = micro_batches_per_step(recipe.training.batch_tokens, recipe.training.micro_batches)
    if micro_batches < processes:
        raise ValueError(
            f"a step has {micro_batches} micro-batches for {processes} processes: set training.micro_batches: "
            f"{processes}, or more, from the first start on"
        )


def _silent(line: str) -> None:
    """What all processes but the first say."""


class Trainer:
    """One training in one directory."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        prepared: Prepared,
        device: torch.device,
        say: Say,
        group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.recipe, self.out, self.prepared, self.say, self.group = recipe, out, prepared, say, group
        training = recipe.training
        self.training = training
        self.vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        build_without_weights(
            recipe.model, self.vocabulary
        )  # sizes that nothing has are told before anything is filled
        torch.manual_seed(training.seed)
        self.model: TranslationModel = recipe.model.build(self.vocabulary)
        smoothing = Smoothing(epsilon=training.label_smoothing, over=training.label_smoothing_over)
        self.objective = LabelSmoothing(self.model, smoothing).train()
        self.optimiser = self._placed(device)
        self.precision = Precision(training.precision, device)
        self.planner = Planner(
            prepared.train,
            batch_tokens=training.batch_tokens,
            micro_batches=training.micro_batches,
            seed=training.seed,
            length_multiple=8 if device.type == "cuda" else 1,
            max_length=self.model.longest,
        )
        self.checkpoints = Checkpoints(out / "training", training.kept, training.save_steps or 1)
        self.journal = MetricsLog(out, say, training.steps, kept=group.is_rank_zero)
        self.progress = TrainingState()
        self.validation = self._validation(smoothing)
        self.circumstances = self._circumstances(device)
        self.saving = Checkpointer(
            self.checkpoints, training, self.optimiser, self.precision, self.circumstances, self.journal, group
        )
        self.holding = ModelSelection(
            training,
            self.validation,
            partial(gather_model, self.model, recipe.model, self.vocabulary, self.optimiser),
            self.optimiser,
            self.checkpoints,
            ModelPublisher(recipe, out, self.vocabulary, (prepared.source, prepared.target)),
            self.journal,
            group,
        )

    def _placed(self, device: torch.device) -> Optimiser:
        """Puts the model on the device, whole or this process's share of it."""
        if self.training.parallel == "sharded" and self.group.size > 1:
            from transduce.training.sharded import ShardedAdam

            return ShardedAdam(self.objective, self.training.optimiser, self.group, device)
        self.model.to(device)
        if self.model.is_compilable:
            compile_on_gpu(self.model, device, self.say)
        return FlatAdam(self.model, self.training.optimiser, self.group)

    def _circumstances(self, device: torch.device) -> TrainingEnvironment:
        """What this run is made under."""
        made = {
            **describe_environment(device),
            "precision": self.precision.name,
            "processes": self.group.size,
            "parallel": "sharded" if self.optimiser.lockstep else "replicated",
        }
        prepared = self.prepared
        names = subwords_files(shared=prepared.source is prepared.target)
        subwords = checksums_of_files(prepared.directory / name for name in {*names})
        judge = [self.training.validate_by, self.validation.corpus.checksum if self.validation else None]
        return TrainingEnvironment(made, prepared.fingerprint, subwords, judge)

    def train(self, start_from: Model | None = None) -> TrainResult:
        """Trains until steps, minutes or patience are used up."""
        resumed = self.saving.resumed()
        if resumed is not None:
            self.progress = resumed
            if start_from is not None:
                self.say("--from is what the run was begun with; it goes on with weights of its own")
        elif start_from is not None:
            self._begin_with(start_from)
        reason = self._finished()
        if reason and (there := self.holding.already(self.progress)) is not None:
            self.say(f"{self.out} is finished: {reason}")
            return self._outcome(reason, there)
        self.journal.cut(self.progress.journal, self.progress.step)
        if not reason:
            self._describe()
            check_memory(self.objective, self.optimiser, self.planner, self.precision)
            reason = self._loop()
        if skipped := self.progress.skips.total:
            self.say(f"steps skipped because their gradient was no number: {skipped}")
        return self._outcome(reason, self.holding.settled(self.progress))

    def _loop(self) -> str:
        """Steps, with what is due after each; gives the reason why it ended."""
        began = time.monotonic() - self.progress.elapsed
        saved = began + self.progress.elapsed
        with collect_signals() as caught, contextlib.closing(self.journal):
            for record in self._steps():
                self.journal.note(record)
                self.progress = self.progress._replace(
                    step=record.step,
                    position=record.position,
                    tokens=self.progress.tokens + record.tokens,
                    elapsed=time.monotonic() - began,
                )
                self._log_and_validate(record)
                now = time.monotonic()
                elapsed, since, number = self.group.all_reduce_max(now - began, now - saved, caught[0] if caught else 0)
                self.progress = self.progress._replace(elapsed=elapsed)
                reason = self._finished()
                stopped = bool(number) and not reason
                if reason or (stopped and not self.progress.skips.in_a_row):
                    self._save()
                elif not stopped and self.saving.is_due(self.progress, since, record) and self._saved():
                    saved = time.monotonic()
                if stopped:
                    # To weights that may be diverging nobody should go back: as if it had been killed.
                    there = "its last checkpoint" if self.progress.skips.in_a_row else "there"
                    self.say(f"stopped after step {record.step}; the same command goes on from {there}")
                    raise Interrupted(int(number))
                if reason:
                    return reason
        raise AssertionError("the loop of steps has no end of its own")

    def _steps(self) -> Iterator[StepRecord]:
        """The steps from here on; where several in a row had to be skipped, from the last checkpoint on other data."""
        while True:
            divergence = DivergenceDetector(self.precision)
            for record in training_steps(
                self.objective,
                self.optimiser,
                self.planner,
                self.training,
                self.precision,
                after=self.progress.step,
                position=self.progress.position,
                group=self.group,
            ):
                if skipped := divergence.skipped(record):
                    self.journal.happened(skipped.step, "skipped: its gradient was no number")
                self.progress = self.progress._replace(skips=self.progress.skips.noted(skipped is not None))
                yield record
                if self.progress.skips.too_many:
                    self._go_back(record)
                    break

    def _go_back(self, record: StepRecord) -> None:
        """To the weights of the last checkpoint; the data moves on, for it may have been the reason."""
        state = self.saving.restored()
        skips = count_rollback(self.progress.skips, record, saved=state is not None)
        assert state is not None
        self.progress = self.progress._replace(step=state["step"], skips=skips)
        self.journal.happened(record.step, f"went back to the weights of step {state['step']}, on other data")

    def _log_and_validate(self, record: StepRecord) -> None:
        """Reports and validates where the recipe says so."""
        every = self.training.validate_every if self.holding.validates else None
        due = every is not None and record.step % every == 0
        if due or record.step % self.training.log_every == 0:
            self.journal.report()
        if due:
            self.progress = self.holding.validated(self.progress)

    def _finished(self) -> str | None:
        """Which of steps, minutes and patience is used up, in words."""
        training, progress = self.training, self.progress
        if training.steps is not None and progress.step >= training.steps:
            return f"{progress.step} steps are done"
        if training.minutes is not None and progress.elapsed >= 60 * training.minutes:
            return f"{training.minutes:g} minutes are over, after {progress.step} steps"
        if training.patience is not None and progress.stale >= training.patience:
            return f"no better validation since step {progress.best_step}"
        return None

    def _saved(self) -> bool:
        """Saves; a checkpoint that cannot be written is told, and tried again soon."""
        try:
            self._save()
        except OSError as error:
            self.saving.failed(self.progress.step, error)
            return False
        return True

    def _save(self) -> None:
        """Writes a checkpoint, and the model directory where no validation does it."""
        weights = self.optimiser.weights()
        self.progress = self.saving.save(self.progress, weights)
        self.holding.last(self.progress, weights)

    def _begin_with(self, other: Model) -> None:
        """Begins with the weights of another model of the same shape; dropout and the like may differ."""
        weights = weights_of(other.module)
        shapes = {name: parameter.shape for name, parameter in self.model.named_parameters()}
        if {name: tensor.shape for name, tensor in weights.items()} != shapes:
            raise ValueError("--from: that model has another shape than `model` of this recipe: name the same preset")
        self.optimiser.load_weights(weights)

    def _validation(self, smoothing: Smoothing) -> Validation | None:
        """What measures the model on the way, where a corpus for that is named."""
        if self.recipe.data.validation is None:
            return None
        prepared = self.prepared
        validation = Validation(
            read_parallel_text(self.recipe.data.validation),
            prepared.source,
            prepared.target,
            self.recipe.decoding,
            smoothing,
            self.group,
            self.recipe.data.target_language,
        )
        validation.check(self.model, bleu=self.training.validate_every is not None or self.training.average is not None)
        return validation

    def _describe(self) -> None:
        """What is about to be trained, on what."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        planner = self.planner
        self.say(
            f"{parameters:,} parameters on {self.circumstances.environment['device']} in {self.precision.name}; "
            f"{len(self.prepared.train):,} pairs, {planner.tokens_per_epoch:,} target words and "
            f"{planner.steps_per_epoch:,} steps an epoch, {len(planner.shapes)} shapes, {planner.padding:.1%} padding"
        )

    def _outcome(self, reason: str, weights: Weights) -> TrainResult:
        progress = self.progress
        return TrainResult(progress.step, progress.tokens, progress.elapsed, reason, weights)
