"""A probe: a short training of a candidate, whose rate ends at zero, and its validation."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from transduce.corpus import PreparedCorpus
from transduce.evaluation.validation import ValidationScore
from transduce.recipe import Recipe
from transduce.trainer.build import count_steps
from transduce.trainer.dry_run import MAX_STEPS, Pace, validation_seconds
from transduce.trainer.trainer import Trainer
from transduce.training import Training

__all__ = ["Probe"]


class Probe:
    """A trained candidate, and what its training has shown."""

    steps: int
    seconds_per_step: float
    loss: float  # of the validation, smoothed, in nats a token

    def __init__(
        self, recipe: Recipe, prepared: PreparedCorpus, minutes: float, device: torch.device, say: Callable[[str], None]
    ) -> None:
        """Trains `recipe` for `minutes` in a temporary directory and computes the loss of the last weights."""
        limits = {"minutes": minutes, "steps": None, "epochs": None, "patience": None, "validate_every": None}
        saving = {"save_every": MAX_STEPS, "keep": 1, "average": None}  # once, at the end
        training = recipe.training.model_copy(update={**limits, **saving})
        with tempfile.TemporaryDirectory() as folder:
            probed = recipe.model_copy(update={"training": training})
            self._trainer = Trainer(probed, Path(folder), prepared, device, lambda line: None)
            records = [(record.step, record.seconds) for record in self._trainer.train()]
        self.steps = records[-1][0]
        self.seconds_per_step = sum(seconds for _, seconds in records) / self.steps
        assert self._trainer.validation is not None
        self.loss = self._trainer.validation(self._trainer.model, translate=False).loss
        say(f"  {self.steps:,} steps, validation loss {self.loss:.3f}")

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which the training reads every pair once."""
        return self._trainer.planner.steps_per_epoch

    def most_steps(self, training: Training) -> int:
        """Returns the most steps that a recipe lets its training take, whatever the minutes."""
        return min(MAX_STEPS, count_steps(training, self._trainer.planner) or MAX_STEPS)

    def validate(self) -> tuple[Pace, ValidationScore]:
        """Translates the validation set; returns the pace of a long training, and the score of this short one.

        May take minutes: a model that has hardly been trained writes translations as long as it may.
        """
        seconds, result = validation_seconds(self._trainer)
        assert result.score is not None
        return Pace(self.seconds_per_step, seconds), result.score
