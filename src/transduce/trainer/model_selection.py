"""Model selection: the last weights, the best in validation, or the mean of several checkpoints."""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from transduce.model_directory import Weights
from transduce.runtime.distributed import ProcessGroup
from transduce.settings import Spec, parse_json, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.trainer.checkpoints import Checkpoints
from transduce.trainer.publishing import ModelPublisher
from transduce.trainer.training_state import TrainingState
from transduce.trainer.validation import ValidationResult
from transduce.training import Training, average_weights

__all__ = ["ModelSelection", "PublishedChoice", "score_of"]

SELECTION = "selection.json"  # in `training`: which weights the comparison after the last step has chosen


def score_of(result: ValidationResult, validate_by: str) -> float:
    """Returns the score of a validation by the measure `validate_by`; higher is better, a loss is negated."""
    return result.score.score if validate_by != "loss" and result.score is not None else -result.loss


class PublishedChoice(Spec):
    """The content of `selection.json`: which weights a training has published after `step`, and their score."""

    step: int
    weights: Weights
    score: float | None = None  # None: not measured
    scored_by: tuple[Any, ...]


@dataclass(frozen=True)
class ModelSelection:
    """Selects and publishes the weights of a training; all processes call it, rank zero reads and writes files."""

    settings: Training
    checkpoints: Checkpoints
    publisher: ModelPublisher
    group: ProcessGroup
    scored_by: list[Any]  # the measure of validations, and the checksum of their corpus

    def improved_score(self, state: TrainingState, result: ValidationResult) -> float | None:
        """Returns the score of a validation where it is better than the best so far, else None."""
        score = score_of(result, self.settings.validate_by)
        is_better = not math.isnan(score) and (state.best is None or score > state.best)
        return score if is_better else None

    def is_better_than_published(self, score: float) -> bool:
        """Returns whether weights of this score may replace those that an earlier end of the training has chosen."""
        choice = self.published_choice()
        return choice is None or choice.score is None or score > choice.score

    def select(self, state: TrainingState, say: Callable[[str], None]) -> Weights:
        """Returns which weights a finished training publishes; sets damaged checkpoints aside where it averages."""
        if self.settings.average is not None:
            self.group.on_rank_zero(lambda: self.checkpoints.set_damaged_aside(say))
        return self._select(state)

    def final_weights(self, state: TrainingState) -> Weights | None:
        """Returns the published weights of a finished training; None where others have yet to be published.

        Published best weights stay when the settings of validation change later. A published mean stays when its older
        checkpoints are deleted. Where the last step compared several weights, the choice was recorded.
        """
        published = self.group.on_rank_zero(self.publisher.read_or_none)
        if published is None:
            return None
        choice = self.group.on_rank_zero(self._read_choice)
        if choice is not None and choice.step == state.step and choice.weights == published:
            return published
        if self.settings.average is None and published.kind == "best":
            return None if self.is_unmeasured(state) else published
        stays = published.kind == "averaged" and published.steps[-1:] == (state.step,)
        return published if stays or published == self._select(state) else None

    def is_unmeasured(self, state: TrainingState) -> bool:
        """Returns whether the last weights of a training that validates were not validated."""
        every = self.settings.validate_every
        return every is not None and state.step % every != 0

    def published_choice(self) -> "PublishedChoice | None":
        """Returns the recorded choice where the model directory has its weights, and its score is comparable."""
        choice = self.group.on_rank_zero(self._read_choice)
        if choice is None or choice.score is None or list(choice.scored_by) != self.scored_by:
            return None
        return choice if self.has_published(choice.weights) else None

    def average(self, selected: Weights) -> dict[str, Tensor]:
        """Returns the mean of the selected checkpoints on rank zero, an empty dictionary elsewhere."""
        means: dict[str, Tensor] = {}
        weights = (self.checkpoints.weights(step) for step in selected.steps)
        self.group.on_rank_zero(lambda: means.update(average_weights(weights)))
        return means

    def record_choice(self, state: TrainingState, chosen: Weights, score: float) -> None:
        """Records which weights the comparison has chosen, so that the finished training is not compared again.

        A training that goes on afterwards replaces these weights by better ones only.
        """
        finite_score = None if math.isnan(score) else score
        choice = PublishedChoice(step=state.step, weights=chosen, score=finite_score, scored_by=tuple(self.scored_by))
        self.group.on_rank_zero(lambda: self._write_choice(choice.model_dump_json(indent=1)))

    def publish(self, selected: Weights, weights: Mapping[str, Tensor], result: ValidationResult | None) -> None:
        """Writes the model directory with these weights; raises OSError in all processes where that fails."""
        self.group.on_rank_zero(lambda: self.publisher.publish(selected, weights, result))

    def has_published(self, weights: Weights) -> bool:
        """Returns whether the model directory has these weights, undamaged."""
        return self.group.on_rank_zero(self.publisher.read_or_none) == weights

    def read_published(self) -> Weights:
        """Returns which weights the model directory has; raises ValueError where it is damaged."""
        return self.group.on_rank_zero(self.publisher.read)

    def _write_choice(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the next start compares again
            atomic_write_text(self.checkpoints.directory / SELECTION, text)

    def _read_choice(self) -> "PublishedChoice | None":
        path = self.checkpoints.directory / SELECTION
        try:
            values = parse_json(read_regular_file(path, MAX_JSON_BYTES), place=str(path))
            return validated(PublishedChoice, values, place=str(path))
        except (OSError, ValueError):
            return None  # never written, or damaged

    def _select(self, state: TrainingState) -> Weights:
        if self.settings.average is not None:
            saved_steps = self.group.on_rank_zero(self.checkpoints.kept_steps)
            return Weights(kind="averaged", steps=tuple(saved_steps[-self.settings.average :]))
        if self.settings.validate_every is not None and state.best_step is not None:
            return Weights(kind="best", steps=(state.best_step,))
        return Weights(kind="last", steps=(state.step,))
