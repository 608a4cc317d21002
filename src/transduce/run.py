"""A run: prepare, train, validate, save, keep the best, and write the model directory.

What `transduce train`, the paper's tables and a notebook all call. The same call on the same directory goes on where it
was stopped, by a signal or by `kill −9`, and ends with the bits of a run that was never stopped.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from transduce.claim import claim, held, set_aside
from transduce.corpus import Planner, Position, Prepared
from transduce.corpus import prepare as prepare_corpus
from transduce.directory import Config, Model, Weights, weights_of
from transduce.journal import Journal
from transduce.machine import choose_device, compile_on_gpu, environment, keep_pages, repeat_bits, use_threads
from transduce.model import TranslationModel, Vocabulary
from transduce.model.readout import Smoothing
from transduce.publish import publish
from transduce.recipe import Recipe
from transduce.training import (
    Checkpoint,
    Checkpoints,
    FlatAdam,
    LabelSmoothing,
    Precision,
    StepRecord,
    averaged,
    training_steps,
)
from transduce.validation import Corpus, Validated, Validation, corpus_of

__all__ = ["Interrupted", "Options", "Outcome", "prepare", "train"]

Say = Callable[[str], None]


class Interrupted(Exception):  # noqa: N818 - it is no error
    """A signal, `number`, asked the run to stop; it has saved and left."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Options(NamedTuple):
    """How to run a recipe, where its result does not depend on it."""

    device: str = "auto"
    threads: int | None = None
    restart: bool = False
    start_from: Path | None = None  # a model directory whose weights and subwords the training begins with


DEFAULTS = Options()


class Outcome(NamedTuple):
    """How a run ended."""

    step: int
    words: int  # target words trained on, end symbols included
    seconds: float  # of training, validating and saving, over all starts
    reason: str
    weights: Weights


def prepare(recipe: Recipe, out: Path, say: Say, start_from: Model | None = None) -> Prepared:
    """Learns the subwords, or takes those of the model to start from, and writes the store, unless it is there."""
    return prepare_corpus(
        recipe.data,
        recipe.subwords,
        out / "training" / "store",
        threads=os.cpu_count() or 1,
        say=say,
        given=(start_from.source, start_from.target) if start_from else None,
    )


def train(recipe: Recipe, out: Path, options: Options = DEFAULTS, say: Say = print) -> Outcome:
    """Trains `recipe` into the model directory `out`, or goes on with it.

    Raises `ValueError` for what the user must mend, `DivergedError` when the loss is no longer a number, and
    `Interrupted` after a signal; all that was saved stays.
    """
    device = choose_device(options.device)
    start_from = Model.read(options.start_from) if options.start_from else None
    use_threads(options.threads)
    keep_pages()
    repeat_bits()
    with held(out):
        if options.restart:
            set_aside(out, say)
        claim(recipe, out)
        prepared = prepare(recipe, out, say, start_from)
        return Run(recipe, out, prepared, device, say).train(start_from)


class Progress(NamedTuple):
    """What a run remembers besides weights and optimiser."""

    step: int = 0
    position: Position = Position()
    words: int = 0  # target words trained on, end symbols included
    elapsed: float = 0.0  # seconds of training, validating and saving, over all starts
    best: float | None = None  # the best validation score so far; higher is better
    best_step: int | None = None
    stale: int = 0  # validations since
    journal: int = 0  # bytes of `metrics.jsonl`


class Run:
    """One training in one directory."""

    def __init__(self, recipe: Recipe, out: Path, prepared: Prepared, device: torch.device, say: Say) -> None:
        self.recipe, self.out, self.prepared, self.say = recipe, out, prepared, say
        training = recipe.training
        self.training = training
        self.vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        torch.manual_seed(training.seed)
        self.model: TranslationModel = recipe.model.build(self.vocabulary).to(device)
        smoothing = Smoothing(epsilon=training.label_smoothing, over=training.label_smoothing_over)
        self.objective = LabelSmoothing(self.model, smoothing).train()
        self.optimiser = FlatAdam(self.model, training.optimiser)
        compile_on_gpu(self.model, device)
        self.precision = Precision(training.precision, device)
        self.planner = Planner(
            prepared.train, batch_tokens=training.batch_tokens, pieces=training.pieces, seed=training.seed
        )
        self.checkpoints = Checkpoints(out / "training", training.kept, training.save_steps or 1)
        self.journal = Journal(out, say, training.steps)
        self.corpus, self.validation = self._validation(smoothing)
        self.progress = Progress()
        self.environment = {**environment(device), "precision": self.precision.name}

    def train(self, start_from: Model | None = None) -> Outcome:
        """Trains until steps, minutes or patience are used up."""
        if not self._resume() and start_from is not None:
            self._begin_with(start_from)
        reason = self._finished()
        if reason and self._published() == self._chosen():
            self.say(f"{self.out} is finished: {reason}")
            return self._outcome(reason, self._chosen())
        self.journal.cut(self.progress.journal, self.progress.step)
        if not reason:
            self._describe()
            reason = self._loop()
        self._finish(self._chosen())
        return self._outcome(reason, self._chosen())

    def _loop(self) -> str:
        """Steps, with what is due after each; gives the reason why it ended."""
        began = time.monotonic() - self.progress.elapsed
        saved = began + self.progress.elapsed
        records = training_steps(
            self.objective,
            self.optimiser,
            self.planner,
            self.training,
            self.precision,
            after=self.progress.step,
            position=self.progress.position,
        )
        with _signals() as caught, contextlib.closing(self.journal):
            for record in records:
                self.journal.note(record)
                self.progress = self.progress._replace(
                    step=record.step,
                    position=record.position,
                    words=self.progress.words + record.words,
                    elapsed=time.monotonic() - began,
                )
                self._log_and_validate(record)
                self.progress = self.progress._replace(elapsed=time.monotonic() - began)
                reason = self._finished()
                if reason or caught or self._save_is_due(record.step, time.monotonic() - saved):
                    self._save()
                    saved = time.monotonic()
                if caught and not reason:
                    self.say(f"stopped after step {record.step}; the same command goes on from there")
                    raise Interrupted(caught[0])
                if reason:
                    return reason
        raise AssertionError("the loop of steps has no end of its own")

    def _log_and_validate(self, record: StepRecord) -> None:
        """Reports and validates where the recipe says so."""
        if record.step % self.training.log_every == 0:
            self.journal.report()
        every = self.training.validate_every
        if self.validation is not None and every is not None and record.step % every == 0:
            self.journal.report()
            self._validate(self.validation)

    def _validate(self, validation: Validation) -> None:
        """Validates; weights that are better than all before become the model directory's."""
        found = validation(self.model)
        self.journal.validated(self.progress.step, self.progress.elapsed, found, self.corpus)
        by_bleu = self.training.validate_by == "bleu" and found.bleu is not None
        score = found.bleu.score if by_bleu and found.bleu else -found.loss
        if self.progress.best is None or score > self.progress.best:
            self.progress = self.progress._replace(best=score, best_step=self.progress.step, stale=0)
            self._publish(Weights(kind="best", steps=(self.progress.step,)), weights_of(self.model), found)
        else:
            self.progress = self.progress._replace(stale=self.progress.stale + 1)

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

    def _save_is_due(self, step: int, since: float) -> bool:
        """Every so many steps, or every so many minutes, as the recipe says."""
        if self.training.save_steps is not None:
            return step % self.training.save_steps == 0
        return since >= (self.training.save_seconds or 0)

    def _save(self) -> None:
        """Writes a checkpoint."""
        self.journal.settle()
        self.progress = self.progress._replace(journal=self.journal.size)
        state = {
            **self.progress._asdict(),
            "loss_scale": [self.precision.scale, self.precision.steady],
            "environment": self.environment,
            "fingerprint": self.prepared.fingerprint,
            "judge": self._judge(),
        }
        self.checkpoints.save(Checkpoint(self.progress.step, weights_of(self.model), self.optimiser.state(), state))
        if self.validation is None:
            self._publish(Weights(kind="last", steps=(self.progress.step,)), weights_of(self.model), None)

    def _resume(self) -> bool:
        """Goes back to the newest checkpoint; False where there is none."""
        checkpoint = self.checkpoints.newest(self.say)
        if checkpoint is None:
            return False
        self.checkpoints.tidy()
        state = dict(checkpoint.state)
        if state.pop("fingerprint") != self.prepared.fingerprint:
            raise ValueError(
                f"the training data of {self.out} has changed since the run was begun; train into another directory, "
                "or begin anew with --restart (what is there is kept)"
            )
        self._warn_of_change(state.pop("environment"))
        judge = state.pop("judge", None)
        self.precision.scale, self.precision.steady = state.pop("loss_scale")
        self.progress = Progress(**{**state, "step": checkpoint.step, "position": Position(*state["position"])})
        if judge != self._judge():
            self.progress = self.progress._replace(best=None, stale=0)
        self._copy_weights(checkpoint.weights)
        self.optimiser.restore(checkpoint.optimiser)
        self.say(f"going on after step {checkpoint.step}")
        return True

    def _judge(self) -> list[Any]:
        """What scores are comparable under: by which measure, on which corpus."""
        corpus = self.recipe.data.validation
        return [self.training.validate_by, corpus.as_dictionary() if corpus else None]

    def _warn_of_change(self, before: Mapping[str, Any]) -> None:
        """The promise of equal bits holds for an equal machine."""
        changed = [
            f"{name} was {before[name]} and is {value}"
            for name, value in self.environment.items()
            if name in before and before[name] != value
        ]
        if changed:
            self.say(f"warning: {'; '.join(changed)}: the run goes on, with bits that differ from an undisturbed one's")

    def _begin_with(self, other: Model) -> None:
        """Begins with the weights of another model of the same shape; dropout and the like may differ."""
        weights = weights_of(other.module)
        shapes = {name: parameter.shape for name, parameter in self.model.named_parameters()}
        if {name: tensor.shape for name, tensor in weights.items()} != shapes:
            raise ValueError("--from: that model has another shape than `model` of this recipe: name the same preset")
        self._copy_weights(weights)

    def _copy_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Weights by name into the model, where they lie."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(weights[name])

    def _chosen(self) -> Weights:
        """Which weights the model directory of the finished run holds: averaged, best or last."""
        if self.training.average is not None:
            return Weights(kind="averaged", steps=tuple(self.checkpoints.steps()[-self.training.average :]))
        if self.progress.best_step is not None:
            return Weights(kind="best", steps=(self.progress.best_step,))
        return Weights(kind="last", steps=(self.progress.step,))

    def _published(self) -> Weights | None:
        """Which weights the model directory holds; None where it is not there, or not whole."""
        try:
            return Model.read(self.out).config.weights
        except ValueError:
            return None

    def _finish(self, chosen: Weights) -> None:
        """The last word on the model directory."""
        if chosen.kind == "averaged":
            mean = averaged(self.checkpoints.weights(step) for step in chosen.steps)
            self._copy_weights(mean)
            found = self.validation(self.model) if self.validation else None
            if found is not None:
                self.say(f"average of {len(chosen.steps)} checkpoints:")
                with contextlib.closing(self.journal):
                    self.journal.validated(self.progress.step, self.progress.elapsed, found, self.corpus)
            self._publish(chosen, mean, found)
        elif chosen.kind == "last":
            self._publish(chosen, weights_of(self.model), None)
        else:
            Model.read(self.out)  # written by a validation; if it is damaged since, this is the place to say so

    def _publish(self, which: Weights, weights: Mapping[str, torch.Tensor], found: Validated | None) -> None:
        """Writes the model directory with these weights."""
        recipe, prepared = self.recipe, self.prepared
        config = Config(
            model=recipe.model,
            vocabulary=self.vocabulary,
            source_language=recipe.data.source_language,
            target_language=recipe.data.target_language,
            decoding=recipe.decoding,
            weights=which,
        )
        publish(self.out, recipe, config, weights, (prepared.source, prepared.target), found.bleu if found else None)

    def _validation(self, smoothing: Smoothing) -> tuple[Corpus, Validation | None]:
        """The validation corpus and what measures it; a `ValueError` where one is needed and none is named."""
        if self.recipe.data.validation is None:
            if self.training.patience is not None:
                raise ValueError("`training.patience` counts validations: name a corpus in `data.validation`")
            return Corpus((), ()), None
        corpus, prepared = corpus_of(self.recipe.data.validation), self.prepared
        return corpus, Validation(corpus, prepared.source, prepared.target, self.recipe.decoding, smoothing)

    def _describe(self) -> None:
        """What is about to be trained, on what."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        planner = self.planner
        self.say(
            f"{parameters:,} parameters on {self.environment['device']} in {self.precision.name}; "
            f"{len(self.prepared.train):,} pairs, {planner.words_per_epoch:,} target words and "
            f"{planner.steps_per_epoch:,} steps an epoch, {len(planner.shapes)} shapes, {planner.padding:.1%} padding"
        )

    def _outcome(self, reason: str, weights: Weights) -> Outcome:
        progress = self.progress
        return Outcome(progress.step, progress.words, progress.elapsed, reason, weights)


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM, so that the step at hand can be finished; a second one acts at once."""
    caught: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(number, before[number])

    before: dict[int, Any] = {}
    for asked in (signal.SIGINT, signal.SIGTERM):
        before[asked] = signal.signal(asked, note)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
