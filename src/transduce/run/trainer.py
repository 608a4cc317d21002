"""The trainer, which runs the training loop, validates, saves checkpoints and writes the model directory.

`transduce.run.train` creates a `Trainer` and drives it. A run that was stopped, by a signal or even by `kill -9`, can
be resumed by the same call on the same directory; its final weights are bit-identical to those of an uninterrupted run.
Only the trainer creates new `TrainingState` objects; the checkpointer and the published model only read them.
"""

import contextlib
import logging
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch

from transduce import __version__
from transduce.corpus.epoch_encoding import EpochWriteError
from transduce.corpus.store.preparation import PreparedCorpus
from transduce.evaluation.validation import Measure, ValidationResult, label_of
from transduce.measure.metric_choice import MetricFunction, ProgramMetric
from transduce.model.cross_entropy import Smoothing
from transduce.model.translation_model import TranslationModel, Vocabulary, build_without_weights
from transduce.model_directory.config import Weights
from transduce.model_directory.model import Model, set_word_flags
from transduce.recipe.recipe import Recipe
from transduce.run.build import (
    build_optimiser,
    build_planner,
    build_validation,
    check_micro_batches,
    count_steps,
    describe_start,
    gather_model,
)
from transduce.run.checkpoints import Checkpointer, Checkpoints, TrainingEnvironment
from transduce.run.fine_tuning import grown_weights
from transduce.run.horizon import HorizonPlanner
from transduce.run.metrics_log import MetricsLog
from transduce.run.publishing import PublishedModel
from transduce.run.run_directory import has_saved
from transduce.run.training_state import TrainingClock, TrainingState
from transduce.runtime.device import describe_environment
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.runtime.memory import is_out_of_memory
from transduce.runtime.progress import track
from transduce.runtime.signals import StoppedTogether, collect_signals
from transduce.storage.checksums import checksums_of_files
from transduce.text.token_vocabulary import share_subwords, subwords_files
from transduce.training.divergence import DivergenceDetector, count_rollback
from transduce.training.loop import StepRecord, training_steps
from transduce.training.memory_check import check_memory
from transduce.training.objective import TrainingObjective
from transduce.training.precision import Precision

_log = logging.getLogger("transduce")

RETRY_SECONDS = 60.0  # if the sentences of an epoch could not be written, time until the next attempt


class TrainResult(NamedTuple):
    """The result of a finished run."""

    step: int  # number of training steps done
    tokens: int  # number of target tokens trained on, including EOS
    seconds: float  # time spent on training, validating and saving, including the time before the run was resumed
    reason: str  # why the run ended, as a sentence
    weights: Weights  # which weights were published


class Trainer:
    """Trains the model of one run; each process of `group` has its own trainer."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        prepared: PreparedCorpus,
        device: torch.device,
        group: ProcessGroup = SINGLE_PROCESS,
        metric: MetricFunction | None = None,  # replaces `training.validate_by`
    ) -> None:
        self.recipe, self.out, self.prepared, self.group = recipe, out, prepared, group
        settings = self.settings = recipe.training
        self.vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        build_without_weights(recipe.model, self.vocabulary)  # raises ValueError if a size is too large for a tensor
        torch.manual_seed(settings.seed)
        self.model: TranslationModel = recipe.model.build(self.vocabulary)
        set_word_flags(self.model, prepared.source, prepared.target)
        smoothing = Smoothing(epsilon=settings.label_smoothing, over=settings.label_smoothing_over)
        self.objective = TrainingObjective(self.model, smoothing, settings.regulariser).train()
        self.optimiser = build_optimiser(self.objective, settings, device, group)
        self.precision = Precision(settings.precision, device)
        self.planner = build_planner(prepared, settings, device, self.model, group)
        self.horizon = HorizonPlanner(settings, self.planner)
        self.metrics_log = MetricsLog(out, settings.minutes, enabled=group.is_rank_zero)
        measure: Measure = metric or settings.validate_by
        self.validation = build_validation(recipe, prepared, self.model, smoothing, group, measure)
        checkpoints = Checkpoints(out / "training", settings.checkpoints_to_keep, settings.save_steps)
        self.checkpointer = Checkpointer(checkpoints, settings, self.optimiser, self.precision, group)
        environment = {
            "transduce": __version__,
            **describe_environment(device),
            "precision": self.precision.name,
            "processes": group.size,
            "parallel": "sharded" if self.optimiser.lockstep else "replicated",
        }
        names = subwords_files(shared=share_subwords((prepared.source, prepared.target)))
        self.environment = TrainingEnvironment(
            environment,
            prepared.fingerprint,
            checksums_of_files(prepared.directory / name for name in {*names}),
            [
                measure.as_dictionary() if isinstance(measure, ProgramMetric) else label_of(measure),
                self.validation.corpus.checksum if self.validation else None,
            ],
        )
        self.published = PublishedModel(recipe, out, prepared, checkpoints, measure, self.environment.scored_by, group)

    def train(self, start_from: Model | None = None) -> Generator[StepRecord, None, TrainResult]:
        """Trains until the run ends, yielding one record per step, and returns the result.

        The run ends when `TrainingState.end_reason` returns a reason. If it has already ended, no steps are taken. The
        weights of `start_from` initialise the model, unless the run has a checkpoint.
        """
        state = self._begin(start_from)
        reason = None if state.validation_pending else state.end_reason(self.settings)
        if reason and (weights := self.published.final_weights(state)) is not None:
            _log.info(f"{self.out} is finished: {reason}")
            return TrainResult(state.step, state.tokens, state.elapsed, reason, weights)
        self.metrics_log.truncate(state.log_bytes, state.step)
        if not reason:
            _log.info(describe_start(self.model, self.prepared, self.planner, self.environment))
            is_resumed = has_saved(self.out)  # a saved model suffices, because `begin_run` then compares the recipes
            check_memory(self.objective, self.optimiser, self.planner, self.precision, is_resumed=is_resumed)
            if self.validation is not None:
                self.validation.check_memory(gather_model(self.model, self.prepared, self.optimiser, self.group))
            state, reason = yield from self._loop(state)
        if skipped := state.skips.total:
            _log.info(f"steps skipped because their gradient was not finite: {skipped}")
        with contextlib.closing(self.metrics_log):
            measure = self._measure if self.validation is not None else None
            weights = self.published.publish_final(state, self.optimiser, measure, self.metrics_log)
        return TrainResult(state.step, state.tokens, state.elapsed, reason, weights)

    def _begin(self, start_from: Model | None) -> TrainingState:
        """Loads the newest checkpoint or, without one, the initial weights; returns the training state."""
        state = self.checkpointer.resume(self.environment)
        if state is not None:
            state = self._plan_as_recorded(state)
            # The pending validation is cancelled if the recipe no longer asks for validations.
            return state._replace(validation_pending=state.validation_pending and self._validates)
        if start_from is not None:
            # The model of `start_from` has no embeddings for tokens that were added to its vocabulary.
            self.optimiser.load_weights(grown_weights(start_from, self.prepared.source, self.prepared.target))
        elif self.group.size > 1:  # broadcasts the weights of rank 0, because the random initialisation may differ
            self.optimiser.load_weights(self.optimiser.weights())
        return TrainingState(micro_batches=self.planner.micro_batches)

    def _plan_as_recorded(self, state: TrainingState) -> TrainingState:
        """Replans a resumed run with the number of micro-batches per step in its checkpoint; returns the new state.

        A different number would change the contents of the micro-batches and the dropout. The recorded number is
        therefore kept, even on a different device, unless the recipe itself sets a number. Raises ValueError if there
        are more processes than micro-batches.
        """
        settings, micro_batches = self.settings, self.planner.micro_batches
        if settings.micro_batches == "auto":
            micro_batches = state.micro_batches
        self.group.on_rank_zero(lambda: check_micro_batches(micro_batches, self.group.size, is_resumed=True))
        if micro_batches != self.planner.micro_batches:
            settings = settings.replaced(micro_batches=micro_batches)
            self.planner = build_planner(self.prepared, settings, self.precision.device, self.model, self.group)
            self.horizon = HorizonPlanner(self.settings, self.planner)
        return state._replace(micro_batches=micro_batches)

    def _loop(self, state: TrainingState) -> Generator[StepRecord, None, tuple[TrainingState, str]]:
        """Trains until the run ends, and returns the final state and the reason why the run ended.

        Checkpoints are saved and validations run between the steps.
        """
        clock = TrainingClock(state.elapsed, self.group)
        tracked = track("training", count_steps(self.settings, self.planner))
        log_open, clock_open = contextlib.closing(self.metrics_log), contextlib.closing(clock)
        with collect_signals() as signals, log_open, clock_open, tracked as progress:
            if state.validation_pending:
                state = self._validate(state, clock)
                if state.end_reason(self.settings):
                    state = self._save(state, is_due=False)
            detector = DivergenceDetector(self.precision)
            while not (reason := state.end_reason(self.settings)):
                horizon = state.horizon
                try:
                    for record in self._steps_after(state):
                        if skipped := detector.find_skipped_step(record):
                            self.metrics_log.log_event(skipped.step, "skipped: its gradient was not finite")
                        state = state.after(record, state.skips.after_step(skipped is not None))
                        self.metrics_log.add_step(record)
                        progress.total = self.metrics_log.total
                        progress.update(record.step, self.metrics_log.summary)
                        yield record
                        state, reason = self._after_step(state, record, clock, signals)
                        if reason:
                            return state, reason
                        if state.skips.needs_rollback:
                            state, detector = self._roll_back(state, record), DivergenceDetector(self.precision)
                            break
                        if state.horizon != horizon:
                            break  # and continue with the learning rates of the new plan
                except EpochWriteError as error:
                    alone = self.group.size == 1  # with several processes, the others are blocked in the current step
                    event = f"could not write the next epoch: {error}; trying again in {RETRY_SECONDS:.0f} seconds"
                    self.metrics_log.log_event(state.step, event)
                    end = time.monotonic() + RETRY_SECONDS
                    while time.monotonic() < end and not (signals and alone):
                        time.sleep(0.1)
                    if signals and alone:
                        self._interrupt(state if state.skips.in_a_row else self._save(state, is_due=False), signals[0])
        return state, reason

    def _steps_after(self, state: TrainingState) -> Iterator[StepRecord]:
        parts = self.objective, self.optimiser, self.planner, self.settings, self.precision
        total_steps = self.horizon.total_steps(state)
        self.metrics_log.total = total_steps
        return training_steps(
            *parts, after=state.step, position=state.position, group=self.group, total_steps=total_steps
        )

    def _after_step(
        self, state: TrainingState, record: StepRecord, clock: TrainingClock, signals: list[int]
    ) -> tuple[TrainingState, str | None]:
        """Logs, saves and validates if any of these is due after this step, and stops the run after a signal.

        Returns the new state, and the reason why the run ends, or None if it continues. Raises StoppedTogether if a
        signal was received.
        """
        elapsed, since_save = clock.read()
        state, self.metrics_log.elapsed = state._replace(elapsed=elapsed), elapsed
        if state.step % self.settings.log_every == 0:
            self.metrics_log.report()
        every, is_saved = self.settings.validate_every, False
        is_validated = self._validates and every is not None and state.step % every == 0
        state = state._replace(validation_pending=is_validated)
        if is_due := self.checkpointer.is_due(state, since_save, record):
            state, is_saved = self._try_to_save(state, clock)
        if state.validation_pending:
            state, is_saved = self._validate(state, clock), False
        if horizon := self.horizon.plan(state):
            state, is_saved = state._replace(horizon=horizon), False
            self.metrics_log.log_event(
                state.step,
                f"at this speed, the training ends at step {self.horizon.total_steps(state)}, where the rate is zero",
            )
        (signal,) = self.group.all_reduce_max(signals[0] if signals else 0)
        reason = state.end_reason(self.settings)
        if (reason or (signal and not state.skips.in_a_row)) and not is_saved:
            state = self._save(state, is_due=is_due)
        if signal and not reason:
            self._interrupt(state, int(signal))
        return state, reason

    def _interrupt(self, state: TrainingState, signal: int) -> NoReturn:
        """Logs where the run stopped and where it will resume, and raises StoppedTogether."""
        place = self.checkpointer.resume_place(state)
        _log.info(f"stopped after step {state.step}; the same command goes on from {place}")
        raise StoppedTogether(signal)

    def _roll_back(self, state: TrainingState, record: StepRecord) -> TrainingState:
        """Loads the last checkpoint after too many skipped steps, and returns the new state.

        The position in the data is not reset, because the data after the checkpoint may have caused the divergence.
        Raises DivergedError if there is no checkpoint, or if earlier rollbacks have not helped.
        """
        saved = self.checkpointer.load_newest(self.environment)
        skips = count_rollback(state.skips, record, saved=saved is not None)
        assert saved is not None
        step = saved.training.step
        self.metrics_log.log_event(record.step, f"went back to the weights of step {step}, on other data")
        return state._replace(step=step, skips=skips)

    @property
    def _validates(self) -> bool:
        """Whether the recipe asks for validations during the run."""
        return self.validation is not None and self.settings.validate_every is not None

    def _validate(self, state: TrainingState, clock: TrainingClock) -> TrainingState:
        """Validates the current weights, publishes them if they are the best so far, and returns the new state."""
        self.metrics_log.report()
        result = self._measure(state)
        if result is None:
            return state._replace(validation_pending=False)
        best = self.published.improved_score(state, result)
        if best is not None and self.published.is_better_than_published(best):
            weights = Weights(kind="best", steps=(state.step,))
            if not self._try_to_publish(weights, self.optimiser.weights(), result):
                return state._replace(validation_pending=False)
        return state.after_validation(best)._replace(elapsed=clock.read()[0])

    def _measure(self, state: TrainingState) -> ValidationResult | None:
        """Validates the current weights, logs the result and returns it; returns None if memory runs out."""
        assert self.validation is not None
        begin = time.perf_counter()
        try:
            result = self.validation(gather_model(self.model, self.prepared, self.optimiser, self.group))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self.metrics_log.log_event(state.step, f"could not validate: {error}")
            return None
        seconds = time.perf_counter() - begin
        self.metrics_log.log_validation(state.step, state.elapsed, result, self.validation.corpus, seconds)
        return result

    def _try_to_publish(
        self, selected: Weights, weights: Mapping[str, torch.Tensor], result: ValidationResult | None = None
    ) -> bool:
        """Publishes the weights in the model directory, and returns True if that succeeds.

        If the model cannot be written, logs the error and returns False; the earlier model is then unchanged.
        """
        try:
            self.published.publish(selected, weights, result)
        except OSError as error:
            self.metrics_log.log_event(selected.steps[-1], f"could not write the model: {error}; the earlier one stays")
            return False
        return True

    def _try_to_save(self, state: TrainingState, clock: TrainingClock) -> tuple[TrainingState, bool]:
        """Saves a scheduled checkpoint; returns the new state, and True if the checkpoint was written.

        If it cannot be written, logs the error; the checkpoint is then tried again some steps later.
        """
        try:
            state = self._save(state, is_due=True)
        except OSError as error:
            self.checkpointer.log_failure(state.step, error, self.metrics_log)
            return state, False
        clock.note_save()
        return state, True

    def _save(self, state: TrainingState, *, is_due: bool) -> TrainingState:
        """Writes a checkpoint and returns the new state.

        If the run does not validate, the weights of the checkpoint are published as well. Raises RuntimeError if the
        weights of the processes differ.
        """
        weights = self.optimiser.weights()
        self.group.check_equal(weights.values(), f"the weights of the processes differ after step {state.step}")
        state = self.checkpointer.save(state, weights, self.environment, self.metrics_log, is_due=is_due)
        if not self._validates:
            self._try_to_publish(Weights(kind="last", steps=(state.step,)), weights)
        return state
