"""Model selection: the last weights, the best in validation, or the mean of several checkpoints."""

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from transduce.model_directory import Weights
from transduce.runtime.distributed import ProcessGroup
from transduce.settings import parse_json
from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.trainer.checkpoints import Checkpoints
from transduce.trainer.publishing import ModelPublisher
from transduce.trainer.training_state import TrainingState
from transduce.trainer.validation import ValidationResult
from transduce.training import Training, average_weights

__all__ = ["ModelSelection", "score_of"]

SELECTION = "selection.json"  # in `training`: which weights the comparison after the last step has chosen


def score_of(result: ValidationResult, validate_by: str) -> float:
    """Returns the score of a validation by the measure `validate_by`; higher is better, a loss is negated."""
    return result.score.score if validate_by != "loss" and result.score is not None else -result.loss


@dataclass(frozen=True)
class ModelSelection:
    """Selects and publishes the weights of a training; all processes call it, rank zero reads and writes files."""

    settings: Training
    checkpoints: Checkpoints
    publisher: ModelPublisher
    group: ProcessGroup

    def improved_score(self, state: TrainingState, result: ValidationResult) -> float | None:
        """Returns the score of a validation where it is better than the best so far, else None."""
        score = score_of(result, self.settings.validate_by)
        is_better = not math.isnan(score) and (state.best is None or score > state.best)
        return score if is_better else None

    def select(self, state: TrainingState, say: Callable[[str], None]) -> Weights:
        """Returns which weights a finished training publishes; sets damaged checkpoints aside where it averages."""
        if self.settings.average is not None:
            self.group.on_rank_zero(lambda: self.checkpoints.set_damaged_aside(say))
        return self._select(state)

    def final_weights(self, state: TrainingState) -> Weights | None:
        """Returns the published weights of a finished training; None where others have yet to be published.

        Published best weights stay when the settings of validation change later. A published mean stays when its older
        checkpoints are deleted. Where training.average compares them, the choice was recorded.
        """
        published = self.group.on_rank_zero(self.publisher.read_or_none)
        if published is None:
            return None
        if self.settings.average is None:
            stays = published.kind == "best"
        else:
            stays = published.kind == "averaged" and published.steps[-1:] == (state.step,)
            stays = stays or self.group.on_rank_zero(self._read_choice) == _choice(state, published)
        return published if stays or published == self._select(state) else None

    def average(self, selected: Weights) -> dict[str, Tensor]:
        """Returns the mean of the selected checkpoints on rank zero, an empty dictionary elsewhere."""
        means: dict[str, Tensor] = {}
        weights = (self.checkpoints.weights(step) for step in selected.steps)
        self.group.on_rank_zero(lambda: means.update(average_weights(weights)))
        return means

    def record_choice(self, state: TrainingState, chosen: Weights) -> None:
        """Records which weights the comparison has chosen, so that the finished training is not compared again."""
        text = json.dumps(_choice(state, chosen), indent=1)
        self.group.on_rank_zero(lambda: self._write_choice(text))

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

    def _read_choice(self) -> Any:
        path = self.checkpoints.directory / SELECTION
        try:
            return parse_json(read_regular_file(path, MAX_JSON_BYTES), place=str(path))
        except (OSError, ValueError):
            return None  # of an earlier version, or never written

    def _select(self, state: TrainingState) -> Weights:
        if self.settings.average is not None:
            saved_steps = self.group.on_rank_zero(self.checkpoints.kept_steps)
            return Weights(kind="averaged", steps=tuple(saved_steps[-self.settings.average :]))
        if self.settings.validate_every is not None and state.best_step is not None:
            return Weights(kind="best", steps=(state.best_step,))
        return Weights(kind="last", steps=(state.step,))


def _choice(state: TrainingState, chosen: Weights) -> dict[str, Any]:
    """Returns the record of a choice as JSON values."""
    return {"step": state.step, "weights": chosen.as_dictionary()}
