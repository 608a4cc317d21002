"""Selects which weights of a run are published, and writes them into its model directory.

`PublishedModel.publish` is called on three occasions:

    a checkpoint is saved, and the run does not validate      publishes the last weights
    a validation has the best score so far                    publishes the best weights
    the run ends                                              publishes the averaged, the best or the last weights,
                                                              whichever have the best validation score
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

SELECTION = "selection.json"  # file in `training` that records which weights were chosen when the run ended


LOSS_OF_A_TIE = 1e-9
"""The weight of the loss in the comparison of two validations, in points of score per nat.

It is so small that the loss only decides between equal scores.
"""


def score_of(result: ValidationResult, measure: Measure) -> float:
    """Returns the score of a validation according to `measure`; higher is better.

    A loss or an error rate, for which lower values are better, is negated.
    """
    score = result.loss if measure == "loss" or result.score is None else result.score.score
    return -score if is_error(measure) or result.score is None else score


class PublishedChoice(Spec):
    """The content of `selection.json`: which weights a run published when it ended after `step`, and their score."""

    step: int
    weights: Weights
    score: float | None = None  # None if the weights were not validated
    scored_by: tuple[Any, ...]  # the metric that scored them, and the checksum of the validation corpus


class Candidate(NamedTuple):
    """Weights that may be published at the end of a run, with their validation score."""

    which: Weights
    score: float  # higher is better; NaN if the weights were not validated
    result: ValidationResult | None = None
    weights: Mapping[str, Tensor] | None = None  # None if the model directory already contains these weights


class PublishedModel:
    """Manages the model that a run publishes in its model directory.

    All processes call its methods together, but only rank 0 reads and writes the files.
    """

    def __init__(
        self,
        recipe: Recipe,
        out: Path,
        prepared: PreparedCorpus,
        checkpoints: Checkpoints,
        measure: Measure,
        scored_by: list[Any],  # the metric that scores validations, and the checksum of the validation corpus
        group: ProcessGroup,
    ) -> None:
        self.recipe, self.settings, self.out, self.checkpoints = recipe, recipe.training, out, checkpoints
        self.measure, self.scored_by, self.group = measure, scored_by, group
        self._subwords, self._report = (prepared.source, prepared.target), prepared.report
        self._vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        self._builder = recipe.model.builder if isinstance(recipe.model, CustomModel) else None
        self._languages = TrainedLanguages.of(recipe.data, prepared.train.parts)
        with contextlib.suppress(ValueError):  # raised if there is no model yet, or if it is damaged
            self.inherit_languages(Model.read_config(out))

    def inherit_languages(self, config: Config) -> None:
        """Adds the languages, directions and tags of another model, such as the one that the run started from."""
        self._languages = self._languages.inherit(config)

    def publish(self, which: Weights, weights: Mapping[str, Tensor], result: ValidationResult | None = None) -> None:
        """Writes `weights` to the model directory, together with the model card and the other files.

        `which` describes the weights, and `result` is the result of their validation, if there was one. Raises OSError
        on all processes if the model cannot be written; the earlier model is then unchanged.
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

        Of two equal scores, the one with the lower loss is better. This matters, for example, if every validation has
        a BLEU score of 0 because no line has four words: otherwise the first weights would remain the best.
        """
        score = score_of(result, self.measure)
        if self.measure != "loss" and math.isfinite(result.loss):
            score -= LOSS_OF_A_TIE * result.loss
        is_better = not math.isnan(score) and (state.best is None or score > state.best)
        return score if is_better else None

    def is_better_than_published(self, score: float) -> bool:
        """Returns True if weights with this score may replace those published when the run last ended.

        Such weights exist only if the run was extended after it had ended. If they have no comparable score, they may
        always be replaced.
        """
        choice = self._published_choice()
        return choice is None or choice.score is None or score > choice.score

    def final_weights(self, state: TrainingState) -> Weights | None:
        """Returns which weights a finished run has published, or None if its final weights are yet to be published.

        If several weights were compared after the last step, the recorded choice is final. Published best weights
        remain final even if the validation settings are changed later, and published averaged weights remain final
        even if older checkpoints are deleted.
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
        """Selects the final weights of a finished run, publishes them, and returns which weights they are.

        `measure` is a function that validates the weights in `optimiser`, or None if the recipe names no validation
        corpus.
        """
        if self.settings.average is not None:
            self.group.on_rank_zero(self.checkpoints.set_damaged_aside)
        selected = self._select(state)
        if selected.kind == "best" and not self._is_unmeasured(state):
            return self._read_published()  # these weights were published when they were validated
        if selected.kind == "last":
            self.publish(selected, optimiser.weights())
            return selected
        candidates = self._candidates(state, selected, optimiser, measure, log)
        chosen = choose(candidates)
        if len(candidates) > 1:
            log.log_event(state.step, comparison(candidates, chosen, self.measure))
        # The choice is recorded before the weights are published. If the run is killed in between, the recorded choice
        # does not match the published weights, is ignored, and is made again.
        if len(candidates) > 1 or selected.kind == "best" or not math.isnan(chosen.score):
            # The score is recorded so that, if the run is extended later, only better weights replace these.
            score = None if math.isnan(chosen.score) else chosen.score
            choice = PublishedChoice(
                step=state.step, weights=chosen.which, score=score, scored_by=tuple(self.scored_by)
            ).model_dump_json(indent=1)

            def write() -> None:
                with contextlib.suppress(OSError):  # without the file, the next start repeats the comparison
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
        """Returns the selected weights and all alternatives to them, with their validation scores.

        One alternative is the weights that were published when this run ended before, if it was extended, or else the
        best validated weights. The other is the last weights, unless they have already been validated. Candidates that
        have no score yet are validated with `measure`.
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
            # Rounding removes the contribution of the loss, `LOSS_OF_A_TIE`, from the score.
            candidates.append(Candidate(best, round(state.best, 6) + 0.0))
        if state.best is not None and selected.steps != last.steps and self._is_unvalidated(state):
            candidates.append(measured(last, "last weights:"))
        if selected.kind == "averaged":
            mean: dict[str, Tensor] = {}  # filled on rank 0 only
            checkpoints = (self.checkpoints.weights(step) for step in selected.steps)
            self.group.on_rank_zero(lambda: mean.update(average_weights(checkpoints)))
            optimiser.load_weights(mean)
            candidates.insert(0, measured(selected, "averaged weights:"))
        return candidates or [Candidate(self._read_published(), math.nan)]

    def _select(self, state: TrainingState) -> Weights:
        """Returns the weights that the recipe selects for publication, before they are compared with any others."""
        if self.settings.average is not None:
            saved_steps = self.group.on_rank_zero(self.checkpoints.kept_steps)
            return Weights(kind="averaged", steps=tuple(saved_steps[-self.settings.average :]))
        if self.settings.validate_every is not None and state.best_step is not None:
            return Weights(kind="best", steps=(state.best_step,))
        return Weights(kind="last", steps=(state.step,))

    def _is_unmeasured(self, state: TrainingState) -> bool:
        """Returns True if the run validates, but no validation was due after its last step."""
        return self.settings.validate_every is not None and self._is_unvalidated(state)

    def _is_unvalidated(self, state: TrainingState) -> bool:
        """Returns True if no validation was due after the last step."""
        every = self.settings.validate_every
        return every is None or state.step % every != 0

    def _read_published(self) -> Weights:
        """Returns which weights the model directory contains; raises ValueError if it has no model or a damaged one."""
        return self.group.on_rank_zero(lambda: Model.read(self.out, self._builder).config.weights)

    def _published(self) -> Weights | None:
        """Returns which weights the model directory contains, or None if it has no model or a damaged one."""

        def read() -> Weights | None:
            try:
                return Model.read(self.out, self._builder).config.weights
            except ValueError:
                return None

        return self.group.on_rank_zero(read)

    def _published_choice(self) -> PublishedChoice | None:
        """Returns the recorded choice if its score can be compared with new scores, else None.

        The score is comparable if it was computed with the same metric on the same validation corpus. The model
        directory must also contain the chosen weights.
        """
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
            return None  # the file was never written, or is damaged


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Returns the candidate with the highest score.

    If several candidates have this score, or if none has a score, the first of them is returned.
    """
    return max(candidates, key=lambda candidate: -math.inf if math.isnan(candidate.score) else candidate.score)


def comparison(candidates: Sequence[Candidate], chosen: Candidate, measure: Measure) -> str:
    """Returns a sentence for the log with the chosen candidate and the scores of all candidates."""
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
    """The languages, translation directions and tags on which a model was trained."""

    source_language: str | None  # as in the recipe, if there is one direction
    target_language: str | None
    directions: tuple[TrainedDirection, ...]
    tags: tuple[str | None, ...]  # None stands for a corpus without a tag; the tuple is empty if no corpus has one

    @classmethod
    def of(cls, data: DataSpec, parts: Sequence[CorpusPart]) -> "TrainedLanguages":
        """Collects the languages, directions and tags of the training corpora in `data`.

        The numbers of pairs per direction are computed from `parts`, the parts of the token store.
        """
        pairs = pairs_of_directions(parts, [data.direction_of(corpus) for corpus in data.train])
        directions = tuple(
            TrainedDirection(source=direction.source, target=direction.target, pairs=count)
            for direction, count in pairs.items()
            if direction.source is not None and direction.target is not None
        )
        tags = tuple(dict.fromkeys(corpus.tag for corpus in data.train))
        return cls(*data.directions[0], directions, () if tags == (None,) else tags)

    def inherit(self, config: Config) -> "TrainedLanguages":
        """Returns these languages, directions and tags together with those of another model."""
        own = {str(direction) for direction in self.directions}
        others = tuple(direction for direction in config.directions if str(direction) not in own)
        has_tags = self.tags or config.tags
        tags = dict.fromkeys([*(self.tags or (None,)), *(config.tags or (None,))]) if has_tags else {}
        source = self.source_language or config.source_language
        target = self.target_language or config.target_language
        return TrainedLanguages(source, target, (*self.directions, *others), tuple(tags))

    def as_fields(self) -> dict[str, Any]:
        """Returns the values for the fields of `Config` with the same names.

        If there is one direction, its languages are in `source_language` and `target_language`; if there are several,
        they are in `directions`, and those two fields are None.
        """
        fields = self._asdict()
        if len(self.directions) > 1:
            return {**fields, "source_language": None, "target_language": None}
        return {**fields, "directions": ()}


def average(run: Path, out: Path, last: int | None, steps: Sequence[int] = ()) -> Weights:
    """Averages the weights of several checkpoints of `run`, and writes the averaged model to the directory `out`.

    The checkpoints are the `last` ones or, if `last` is None, those of the given `steps`. Raises ValueError if a
    checkpoint is missing, or if `out` is not empty.
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
    """Returns the model card, the README of a model directory, which its owner may edit later.

    `score` is the validation score of the weights, and `report` is the report on dropped training pairs; either may be
    None if it is not available.
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
