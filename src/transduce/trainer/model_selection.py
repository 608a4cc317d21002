"""Which weights the model directory of a run holds: the last, the best in validation, or a mean of checkpoints."""

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.model import ModelSpec, TranslationModel, Vocabulary
from transduce.model_directory import Weights
from transduce.runtime.distributed import ProcessGroup
from transduce.trainer.checkpoints import Checkpoints
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.publishing import ModelPublisher
from transduce.trainer.training_state import TrainingState
from transduce.trainer.validation import Validation, ValidationResult
from transduce.training import Optimiser, Training, average_weights

__all__ = ["ModelSelection", "gather_model"]


@dataclass(frozen=True)
class ModelSelection:
    """Validates the model of a run and publishes its weights; all processes call it, the first writes."""

    training: Training
    validation: Validation | None
    gather_model: Callable[[], TranslationModel]  # the model as it is now, whole
    optimiser: Optimiser
    checkpoints: Checkpoints
    publisher: ModelPublisher
    journal: MetricsLog
    group: ProcessGroup

    @property
    def validates(self) -> bool:
        """Whether validations on the way decide which weights the directory holds."""
        return self.validation is not None and self.training.validate_every is not None

    def validated(self, progress: TrainingState) -> TrainingState:
        """Validates; weights that are better than all before become the directory's."""
        assert self.validation is not None
        found = self._found(self.validation, progress)
        by_bleu = self.training.validate_by == "bleu" and found.bleu is not None
        score = found.bleu.score if by_bleu and found.bleu else -found.loss
        if math.isnan(score) or (progress.best is not None and score <= progress.best):
            return progress._replace(stale=progress.stale + 1)
        best = Weights(kind="best", steps=(progress.step,))
        if not self._published(best, self.optimiser.weights(), found):
            return progress
        return progress._replace(best=score, best_step=progress.step, stale=0)

    def last(self, progress: TrainingState, weights: Mapping[str, Tensor]) -> None:
        """The directory holds these, of the checkpoint just saved, unless validations decide."""
        if not self.validates:
            self._published(Weights(kind="last", steps=(progress.step,)), weights)

    def already(self, progress: TrainingState) -> Weights | None:
        """Which weights the directory of a finished run holds; None where it should hold others.

        The best ones stay the run's, whatever is asked about validations after its end; the mean of its checkpoints
        does, though somebody has deleted the older ones since.
        """
        there = self.group.on_rank_zero(self.publisher.published)
        if there is None:
            return None
        if self.training.average is None:
            stays = there.kind == "best"
        else:
            stays = there.kind == "averaged" and there.steps[-1:] == (progress.step,)
        return there if stays or there == self._chosen(progress) else None

    def settled(self, progress: TrainingState) -> Weights:
        """The last word on the directory of a run that has ended; gives the weights that it holds."""
        if self.training.average is not None:
            self.group.on_rank_zero(lambda: self.checkpoints.drop_damaged(self.journal.say))
        chosen = self._chosen(progress)
        if chosen.kind == "best":
            # Those that a validation has published last: after a stop without a signal that may have been later than
            # the last checkpoint, from which the run went on. If they are damaged since, this is the place to say so.
            return self.group.on_rank_zero(self.publisher.read)
        found = self._average(chosen, progress) if chosen.kind == "averaged" else None
        self._publish(chosen, self.optimiser.weights(), found)
        return chosen

    def _chosen(self, progress: TrainingState) -> Weights:
        """Which weights the directory holds in the end: averaged, best or last."""
        if self.training.average is not None:
            there = self.group.on_rank_zero(self.checkpoints.steps)
            return Weights(kind="averaged", steps=tuple(there[-self.training.average :]))
        if self.validates and progress.best_step is not None:
            return Weights(kind="best", steps=(progress.best_step,))
        return Weights(kind="last", steps=(progress.step,))

    def _average(self, chosen: Weights, progress: TrainingState) -> ValidationResult | None:
        """The run's weights become the mean of the chosen checkpoints; gives what a validation finds of them."""
        means: dict[str, Tensor] = {}
        kept = (self.checkpoints.weights(step) for step in chosen.steps)
        self.group.on_rank_zero(lambda: means.update(average_weights(kept)))
        self.optimiser.load_weights(means)
        if self.validation is None:
            return None
        self.journal.say(f"average of {len(chosen.steps)} checkpoints:")
        with contextlib.closing(self.journal):
            return self._found(self.validation, progress)

    def _found(self, validation: Validation, progress: TrainingState) -> ValidationResult:
        """What `validation` finds of the model as it is now, which the journal notes."""
        found = validation(self.gather_model())
        self.journal.validated(progress.step, progress.elapsed, found, validation.corpus)
        return found

    def _published(self, which: Weights, weights: Mapping[str, Tensor], found: ValidationResult | None = None) -> bool:
        """As `_publish`; that a directory cannot be written on the way is told, and stops nothing."""
        try:
            self._publish(which, weights, found)
        except OSError as error:
            self.journal.happened(which.steps[-1], f"could not write the model: {error}; the one before it stays")
            return False
        return True

    def _publish(self, which: Weights, weights: Mapping[str, Tensor], found: ValidationResult | None = None) -> None:
        """The directory holds these weights."""
        self.group.on_rank_zero(lambda: self.publisher(which, weights, found))


def gather_model(
    model: TranslationModel, spec: ModelSpec, vocabulary: Vocabulary, optimiser: Optimiser
) -> TranslationModel:
    """The model as validation reads it: the one that is trained, or a whole copy of one that lies in shards."""
    if not optimiser.lockstep:
        return model
    copy, weights = spec.build(vocabulary), optimiser.weights()
    with torch.no_grad():
        for name, parameter in copy.named_parameters():
            parameter.copy_(weights[name])
    return copy.to(next(model.parameters()).device)
