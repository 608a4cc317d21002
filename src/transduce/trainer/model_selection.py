"""Model selection: the last weights, the best in validation, or the mean of several checkpoints."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from transduce.model_directory import Weights
from transduce.runtime.distributed import ProcessGroup
from transduce.trainer.checkpoints import Checkpoints
from transduce.trainer.publishing import ModelPublisher
from transduce.trainer.training_state import TrainingState
from transduce.trainer.validation import ValidationResult
from transduce.training import Training, average_weights

__all__ = ["ModelSelection"]


@dataclass(frozen=True)
class ModelSelection:
    """Selects and publishes the weights of a training; all processes call it, rank zero reads and writes files."""

    settings: Training
    checkpoints: Checkpoints
    publisher: ModelPublisher
    group: ProcessGroup

    def improved_score(self, state: TrainingState, result: ValidationResult) -> float | None:
        """Returns the score of a validation where it is better than the best so far, else None."""
        has_score = self.settings.validate_by != "loss" and result.score is not None
        score = result.score.score if has_score and result.score else -result.loss
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
        checkpoints are deleted.
        """
        published = self.group.on_rank_zero(self.publisher.read_or_none)
        if published is None:
            return None
        if self.settings.average is None:
            stays = published.kind == "best"
        else:
            stays = published.kind == "averaged" and published.steps[-1:] == (state.step,)
        return published if stays or published == self._select(state) else None

    def average(self, selected: Weights) -> dict[str, Tensor]:
        """Returns the mean of the selected checkpoints on rank zero, an empty dictionary elsewhere."""
        means: dict[str, Tensor] = {}
        weights = (self.checkpoints.weights(step) for step in selected.steps)
        self.group.on_rank_zero(lambda: means.update(average_weights(weights)))
        return means

    def publish(self, selected: Weights, weights: Mapping[str, Tensor], result: ValidationResult | None) -> None:
        """Writes the model directory with these weights; raises OSError in all processes where that fails."""
        self.group.on_rank_zero(lambda: self.publisher.publish(selected, weights, result))

    def read_published(self) -> Weights:
        """Returns which weights the model directory has; raises ValueError where it is damaged."""
        return self.group.on_rank_zero(self.publisher.read)

    def _select(self, state: TrainingState) -> Weights:
        if self.settings.average is not None:
            saved_steps = self.group.on_rank_zero(self.checkpoints.kept_steps)
            return Weights(kind="averaged", steps=tuple(saved_steps[-self.settings.average :]))
        if self.settings.validate_every is not None and state.best_step is not None:
            return Weights(kind="best", steps=(state.best_step,))
        return Weights(kind="last", steps=(state.step,))
