"""The published model of a run: selects the weights of its model directory and writes them.

Weights are published at three moments, each time by `PublishedModel.publish`:

    a checkpoint, if no validation selects        the last weights
    a validation better than all before           the best weights
    the end of the run                            the average, the best or the last weights, by their validation
"""

import contextlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from transduce.corpus.data_spec import DataSpec
from transduce.corpus.mixture import pairs_of_directions
from transduce.corpus.pair_checks import Report
from transduce.corpus.store.preparation import PreparedCorpus
from transduce.corpus.store.token_store import CorpusPart
from transduce.evaluation.validation import Measure, ValidationResult, ValidationScore, is_error, label_of
from transduce.model.model_spec import CustomModel
from transduce.model.translation_model import Vocabulary
from transduce.model_directory.config import Config, TrainedDirection, Weights
from transduce.model_directory.manifest import CARD, RECIPE
from transduce.model_directory.model import Model
from transduce.model_directory.writing import check_new_or_empty, write_model, write_new_model
from transduce.recipe.recipe import Recipe, dump, read_resolved_recipe
from transduce.run.checkpoints import Checkpoints
from transduce.run.metrics_log import MetricsLog
from transduce.run.training_state import TrainingState
from transduce.runtime.distributed import ProcessGroup
from transduce.settings import Spec, merged, parse_json, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.training.averaging import average_weights
from transduce.training.optimiser import Optimiser

_log = logging.getLogger("transduce")

SELECTION = "selection.json"  # in `training`: the weights that the comparison after the last step has chosen


LOSS_OF_A_TIE = 1e-9
"""Points of score per nat of loss: so few that the loss only decides between equal scores."""


def score_of(result: ValidationResult, measure: Measure) -> float:
    """Returns the score of a validation by `measure`; higher is better, so a loss or an error rate is negated."""
    score = result.loss if measure == "loss" or result.score is None else result.score.score
    return -score if is_error(measure) or result.score is None else score


class PublishedChoice(Spec):
    """The content of `selection.json`: the weights that a run has published after `step`, and their score."""

    step: int
    weights: Weights
    score: float | None = None  # None: not measured
    scored_by: tuple[Any, ...]


class Candidate(NamedTuple):
    """Weights that may be published, and their validation score; higher is better, NaN if there is none."""

    which: Weights
    score: float
    result: ValidationResult | None = None
    weights: Mapping[str, Tensor] | None = None  # None: the model directory has them already


class PublishedModel:
    """The model directory of a run; all processes call it together, but only rank zero reads and writes files."""

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        prepared: PreparedCorpus,
        checkpoints: Checkpoints,
        measure: Measure,
        scored_by: list[Any],  # the measure of validations, and the checksum of their corpus
        group: ProcessGroup,
    ) -> None:
        self.recipe, self.settings, self.out, self.checkpoints = recipe, recipe.training, out, checkpoints
        self.measure, self.scored_by, self.group = measure, scored_by, group
        self._subwords, self._report = (prepared.source, prepared.target), prepared.report
        self._vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        self._builder = recipe.model.builder if isinstance(recipe.model, CustomModel) else None
        self._languages = TrainedLanguages.of(recipe.data, prepared.train.parts)
        with contextlib.suppress(ValueError):  # no model yet, or a damaged one
            self.inherit_languages(Model.read_config(out))

    def inherit_languages(self, config: Config) -> None:
        """Adds the languages of another model, for example the model of `--from`."""
        self._languages = self._languages.inherit(config)

    def publish(self, which: Weights, weights: Mapping[str, Tensor], result: ValidationResult | None = None) -> None:
        """Writes the model directory with these weights and the result of their validation.

        Raises OSError in all processes if that fails; the earlier model then stays.
        """

        def write() -> None:
            config = Config(
                model=self.recipe.model,
                vocabulary=self._vocabulary,
                **self._languages.as_fields(),
                linearisation=self.recipe.data.tree_linearisation,
                decoding=self.recipe.decoding,
                weights=which,
            )
            card = model_card(self.recipe, config, result.score if result else None, self._report)
            write_model(self.out, config, weights, self._subwords, {RECIPE: dump(self.recipe), CARD: card})

        self.group.on_rank_zero(write)

    def improved_score(self, state: TrainingState, result: ValidationResult) -> float | None:
        """Returns the score of a validation if it is the best so far, else None.

        Between equal scores, the lower loss wins. For example, BLEU is 0 at every validation if no line has four words,
        and without this rule the first weights, which are the worst, would stay the best.
        """
        score = score_of(result, self.measure)
        if self.measure != "loss" and math.isfinite(result.loss):
            score -= LOSS_OF_A_TIE * result.loss
        is_better = not math.isnan(score) and (state.best is None or score > state.best)
        return score if is_better else None

    def is_better_than_published(self, score: float) -> bool:
        """Whether weights with this score may replace the weights that an earlier end of the run has chosen."""
        choice = self._published_choice()
        return choice is None or choice.score is None or score > choice.score

    def final_weights(self, state: TrainingState) -> Weights | None:
        """Returns the published weights of a finished run; None if different weights have yet to be published.

        Published best weights stay valid even if the validation settings change later, and a published mean even if its
        older checkpoints are deleted. If several weights were compared after the last step, the recorded choice
        decides.
        """
        published = self._published()
        if published is None:
            return None
        choice = self.group.on_rank_zero(self._read_choice)
        if choice is not None and choice.step == state.step and choice.weights == published:
            return published
        if self.settings.average is None and published.kind == "best":
            return None if self._is_unmeasured(state) else published
        stays = published.kind == "averaged" and published.steps[-1:] == (state.step,)
        return published if stays or published == self._select(state) else None

    def publish_final(
        self,
        state: TrainingState,
        optimiser: Optimiser,
        measure: Callable[[TrainingState], ValidationResult | None] | None,
        log: MetricsLog,
    ) -> Weights:
        """Selects the weights of a finished run, publishes them and returns which weights they are.

        `measure` validates the optimiser's weights; it is None if the recipe names no corpus for validation.
        """
        if self.settings.average is not None:
            self.group.on_rank_zero(self.checkpoints.set_damaged_aside)
        selected = self._select(state)
        if selected.kind == "best" and not self._is_unmeasured(state):
            return self._read_published()  # already published when they were validated
        if selected.kind == "last":
            self.publish(selected, optimiser.weights())
            return selected
        candidates = self._candidates(state, selected, optimiser, measure, log)
        chosen = choose(candidates)
        if len(candidates) > 1:
            log.log_event(state.step, comparison(candidates, chosen, self.measure))
        # The choice is recorded first, because a choice whose weights are not published is ignored and made again.
        if len(candidates) > 1 or selected.kind == "best" or not math.isnan(chosen.score):
            # If the run is extended later, only better weights replace these.
            score = None if math.isnan(chosen.score) else chosen.score
            choice = PublishedChoice(
                step=state.step, weights=chosen.which, score=score, scored_by=tuple(self.scored_by)
            ).model_dump_json(indent=1)

            def write() -> None:
                with contextlib.suppress(OSError):  # the next start compares again
                    atomic_write_text(self.checkpoints.directory / SELECTION, choice)

            self.group.on_rank_zero(write)
        if chosen.weights is not None:
            self.publish(chosen.which, chosen.weights, chosen.result)
        return chosen.which

    def _candidates(
        self,
        state: TrainingState,
        selected: Weights,
        optimiser: Optimiser,
        measure: Callable[[TrainingState], ValidationResult | None] | None,
        log: MetricsLog,
    ) -> list[Candidate]:
        """Returns the selected weights and the alternatives that a validation may prefer; validates the new ones.

        The alternatives are the weights that were chosen at an earlier end of this run, or else the best validated
        weights. The last weights are another alternative unless the last step was validated.
        """

        def measured(which: Weights, title: str) -> Candidate:
            weights = optimiser.weights()
            if measure is None:
                return Candidate(which, math.nan, None, weights)
            _log.info(title)
            result = measure(state)
            score = math.nan if result is None else score_of(result, self.measure)
            return Candidate(which, score, result, weights)

        best, last = Weights(kind="best", steps=(state.best_step or 0,)), Weights(kind="last", steps=(state.step,))
        candidates = []
        earlier = self._published_choice()
        if earlier is not None and earlier.score is not None and earlier.weights not in (selected, last):
            candidates.append(Candidate(earlier.weights, earlier.score))
        elif state.best is not None and self._published() == best:
            candidates.append(Candidate(best, round(state.best, 6) + 0.0))  # rounding removes the loss's contribution
        if state.best is not None and selected.steps != last.steps and self._is_unvalidated(state):
            candidates.append(measured(last, "last weights:"))
        if selected.kind == "averaged":
            mean: dict[str, Tensor] = {}  # on rank zero
            checkpoints = (self.checkpoints.weights(step) for step in selected.steps)
            self.group.on_rank_zero(lambda: mean.update(average_weights(checkpoints)))
            optimiser.load_weights(mean)
            candidates.insert(0, measured(selected, "averaged weights:"))
        return candidates or [Candidate(self._read_published(), math.nan)]

    def _select(self, state: TrainingState) -> Weights:
        """Returns the weights that a finished run publishes if nothing is compared."""
        if self.settings.average is not None:
            saved_steps = self.group.on_rank_zero(self.checkpoints.kept_steps)
            return Weights(kind="averaged", steps=tuple(saved_steps[-self.settings.average :]))
        if self.settings.validate_every is not None and state.best_step is not None:
            return Weights(kind="best", steps=(state.best_step,))
        return Weights(kind="last", steps=(state.step,))

    def _is_unmeasured(self, state: TrainingState) -> bool:
        """Whether the run validates, but did not validate its last weights."""
        return self.settings.validate_every is not None and self._is_unvalidated(state)

    def _is_unvalidated(self, state: TrainingState) -> bool:
        """Whether no validation was due after the last step."""
        every = self.settings.validate_every
        return every is None or state.step % every != 0

    def _read_published(self) -> Weights:
        """Returns the weights in the directory; raises ValueError if it has no model or a damaged one."""
        return self.group.on_rank_zero(lambda: Model.read(self.out, self._builder).config.weights)

    def _published(self) -> Weights | None:
        """Returns the weights in the directory; None if it has no model or a damaged one."""

        def read() -> Weights | None:
            try:
                return Model.read(self.out, self._builder).config.weights
            except ValueError:
                return None

        return self.group.on_rank_zero(read)

    def _published_choice(self) -> PublishedChoice | None:
        """Returns the recorded choice if the model directory has its weights and its score is comparable, else None."""
        choice = self.group.on_rank_zero(self._read_choice)
        if choice is None or choice.score is None or list(choice.scored_by) != self.scored_by:
            return None
        return choice if self._published() == choice.weights else None

    def _read_choice(self) -> PublishedChoice | None:
        path = self.checkpoints.directory / SELECTION
        try:
            values = parse_json(read_regular_file(path, MAX_JSON_BYTES), place=str(path))
            return validated(PublishedChoice, values, place=str(path))
        except (OSError, ValueError):
            return None  # never written, or damaged


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Returns the candidate with the highest score: the first if several are equal or none has a score."""
    return max(candidates, key=lambda candidate: -math.inf if math.isnan(candidate.score) else candidate.score)


def comparison(candidates: Sequence[Candidate], chosen: Candidate, measure: Measure) -> str:
    """Returns one sentence with the scores of all candidates."""
    scores = ", ".join(f"{_name(each.which)} {_shown(each.score, measure)}" for each in candidates)
    return f"publishes {_name(chosen.which)}, the best by {label_of(measure)}: {scores}"


def _name(which: Weights) -> str:
    steps = f"{which.steps[0]} to {which.steps[-1]}" if len(which.steps) > 1 else f"{which.steps[0]}"
    return f"the {'average' if which.kind == 'averaged' else which.kind} of step {steps}"


def _shown(score: float, measure: Measure) -> str:
    if math.isnan(score):
        return "not measured"
    return f"{-score if is_error(measure) else score:{'.3f' if measure == 'loss' else '.2f'}}"


class TrainedLanguages(NamedTuple):
    """The languages, directions and tags of a model."""

    source_language: str | None  # as in the recipe, if there is one direction
    target_language: str | None
    directions: tuple[TrainedDirection, ...]
    tags: tuple[str | None, ...]  # None stands for a corpus without a tag; empty if no corpus has a tag

    @classmethod
    def of(cls, data: DataSpec, parts: Sequence[CorpusPart]) -> "TrainedLanguages":
        """Collects the languages of the corpora; `parts` says how many pairs of each corpus the store has."""
        pairs = pairs_of_directions(parts, [data.direction_of(corpus) for corpus in data.train])
        directions = tuple(
            TrainedDirection(source=direction.source, target=direction.target, pairs=count)
            for direction, count in pairs.items()
            if direction.source is not None and direction.target is not None
        )
        tags = tuple(dict.fromkeys(corpus.tag for corpus in data.train))
        return cls(*data.directions[0], directions, () if tags == (None,) else tags)

    def inherit(self, config: Config) -> "TrainedLanguages":
        """Adds the languages of another model, for example the model of `--from`."""
        own = {str(direction) for direction in self.directions}
        others = tuple(direction for direction in config.directions if str(direction) not in own)
        has_tags = self.tags or config.tags
        tags = dict.fromkeys([*(self.tags or (None,)), *(config.tags or (None,))]) if has_tags else {}
        source = self.source_language or config.source_language
        target = self.target_language or config.target_language
        return TrainedLanguages(source, target, (*self.directions, *others), tuple(tags))

    def as_fields(self) -> dict[str, Any]:
        """Returns fields of `Config`: source and target of a single direction, or a list of several directions."""
        fields = self._asdict()
        if len(self.directions) > 1:
            return {**fields, "source_language": None, "target_language": None}
        return {**fields, "directions": ()}


def average(run: Path, out: Path, last: int | None, steps: Sequence[int] = ()) -> Weights:
    """Writes the model directory `out` with the mean of the `last` checkpoints of `run`, or of the steps `steps`.

    Raises ValueError if a checkpoint is missing, or if `out` is not empty.
    """
    check_new_or_empty(out)
    model = Model.read(run)
    checkpoints = Checkpoints(run / "training")
    saved = checkpoints.steps()
    steps = saved[-last:] if last else sorted(set(steps))
    missing = sorted(set(steps) - set(saved))
    if missing or len(steps) < (last or 1):
        lacking = f"no checkpoint of step {', '.join(map(str, missing))}" if missing else f"no {last} checkpoints"
        kept = ", ".join(map(str, saved)) or "none"
        raise ValueError(f"{run} has {lacking}; it has {kept}, and a run with `--set training.keep=N` keeps N")
    averaged = Weights(kind="averaged", steps=tuple(steps))
    values = merged(model.config.as_dictionary(), {"weights": averaged.as_dictionary()})
    config = validated(Config, values, place=str(run))
    recipe = read_resolved_recipe(run / RECIPE)
    mean = average_weights(checkpoints.weights(step) for step in steps)
    texts = {RECIPE: dump(recipe), CARD: model_card(recipe, config, None, None)}
    write_new_model(out, config, mean, (model.source, model.target), texts)
    return averaged


def model_card(recipe: Recipe, config: Config, score: ValidationScore | None, report: Report | None) -> str:
    """Returns the initial README of a model directory, which its owner may edit.

    `score` is the validation score of the weights; `report` is the report on the training pairs.
    """
    source, target = config.source_language or "source", config.target_language or "target"
    to = f" --to {config.directions[0].target}" if config.directions else ""
    steps = ", ".join(f"{step:,}" for step in config.weights.steps)
    name = type(config.model).__name__
    measured = f"{score.label} {score.score:.2f} ({score.signature})" if score else "not measured"
    commands = [f"translate DIRECTORY{to}", f'DIRECTORY "a sentence"{to} --out attention.html']
    title = ", ".join(f"{pair.source} → {pair.target}" for pair in config.directions) or f"{source} → {target}"
    if config.linearisation:
        title, commands = f"Parser of {source}", ["parse DIRECTORY", 'DIRECTORY "a sentence" --tree --out tree.html']
    unit = "symbols" if config.linearisation else "target subwords"
    pairs = "; ".join(report.counts()) if report else ""
    directions = ", ".join(f"{pair} ({pair.pairs:,} pairs)" for pair in config.directions)
    tags = ", ".join(tag or "none" for tag in config.tags)
    named = ("training pairs", pairs), ("directions", directions), ("tags", tags)
    rows = "".join(f"| {row} | {value} |\n" for row, value in named if value)
    return f"""# {title}

A {name} trained with `transduce`, {config.model.d_model} features wide, with {config.vocabulary.source:,} source
subwords and {config.vocabulary.target:,} {unit}.

| | |
|---|---|
| weights | {config.weights.kind}, of step {steps} |
| trained in | steps of at most {recipe.training.max_batch_tokens:,} positions a side |
| validation | {measured} |
{rows}| recipe | `recipe.yaml`, everything resolved |

    transduce {commands[0]} input.txt
    transduce draw {commands[1]}

This page is free to edit: say here what the model is for, what it was trained on, and what it must not be used for.
"""
