"""The weights that a finished training publishes: the average, the last or the best validated, by their validation."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from transduce.model_directory import Weights
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.model_selection import ModelSelection, score_of
from transduce.trainer.training_state import TrainingState
from transduce.trainer.validation import ValidationResult
from transduce.training import Optimiser, Training

__all__ = ["Candidate", "FinalWeights", "choose", "comparison"]


class Candidate(NamedTuple):
    """Weights that may be published, and their validation score; higher is better, NaN where there is none."""

    which: Weights
    score: float
    result: ValidationResult | None = None
    weights: Mapping[str, Tensor] | None = None  # None: the model directory has them already


@dataclass(frozen=True)
class FinalWeights:
    """Selects the weights of a finished training and publishes them; all processes call it together."""

    settings: Training
    selection: ModelSelection
    optimiser: Optimiser
    measure: Callable[[TrainingState], ValidationResult | None] | None  # of the optimiser's weights; None: no corpus
    log: MetricsLog

    def publish(self, state: TrainingState) -> Weights:
        """Publishes the selected weights and returns which they are."""
        selected = self.selection.select(state, self.log.say)
        if selected.kind == "best" and not self.selection.is_unmeasured(state):
            return self.selection.read_published()  # published by their validation already
        if selected.kind == "last":
            self.selection.publish(selected, self.optimiser.weights(), None)
            return selected
        candidates = self._candidates(state, selected)
        chosen = choose(candidates)
        if len(candidates) > 1:
            self.log.log_event(state.step, comparison(candidates, chosen, self.settings.validate_by))
        # Recorded first: a choice whose weights are not published counts for nothing, and is made again.
        if len(candidates) > 1 or selected.kind == "best" or not math.isnan(chosen.score):
            self.selection.record_choice(state, chosen.which, chosen.score)
        if chosen.weights is not None:
            self.selection.publish(chosen.which, chosen.weights, chosen.result)
        return chosen.which

    def _candidates(self, state: TrainingState, selected: Weights) -> list[Candidate]:
        """Returns the selected weights, and what else a validation may prefer; measures what is new.

        The others are the choice of an earlier end of this training, or else the best validated weights, and the last
        weights, unless the last step was validated.
        """
        best, last = Weights(kind="best", steps=(state.best_step or 0,)), Weights(kind="last", steps=(state.step,))
        candidates = []
        earlier = self.selection.published_choice()
        if earlier is not None and earlier.score is not None and earlier.weights not in (selected, last):
            candidates.append(Candidate(earlier.weights, earlier.score))
        elif state.best is not None and self.selection.has_published(best):
            candidates.append(Candidate(best, state.best))
        every = self.settings.validate_every
        if state.best is not None and selected.steps != last.steps and (every is None or state.step % every):
            candidates.append(self._measured(state, last, "last weights:"))
        if selected.kind == "averaged":
            self.optimiser.load_weights(self.selection.average(selected))
            candidates.insert(0, self._measured(state, selected, "averaged weights:"))
        return candidates or [Candidate(self.selection.read_published(), math.nan)]

    def _measured(self, state: TrainingState, which: Weights, title: str) -> Candidate:
        """Returns the optimiser's weights with the result of their validation."""
        weights = self.optimiser.weights()
        if self.measure is None:
            return Candidate(which, math.nan, None, weights)
        self.log.say(title)
        result = self.measure(state)
        score = math.nan if result is None else score_of(result, self.settings.validate_by)
        return Candidate(which, score, result, weights)


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Returns the candidate with the highest score, of equals the first; the first where none has a score."""
    return max(candidates, key=lambda candidate: -math.inf if math.isnan(candidate.score) else candidate.score)


def comparison(candidates: Sequence[Candidate], chosen: Candidate, validate_by: str) -> str:
    """Returns a sentence with the scores of all candidates."""
    scores = ", ".join(f"{_name(each.which)} {_shown(each.score, validate_by)}" for each in candidates)
    measure = validate_by if validate_by == "loss" else validate_by.upper()
    return f"publishes {_name(chosen.which)}, the best by {measure}: {scores}"


def _name(which: Weights) -> str:
    steps = f"{which.steps[0]} to {which.steps[-1]}" if len(which.steps) > 1 else f"{which.steps[0]}"
    return f"the {'average' if which.kind == 'averaged' else which.kind} of step {steps}"


def _shown(score: float, validate_by: str) -> str:
    return "not measured" if math.isnan(score) else f"{-score:.3f}" if validate_by == "loss" else f"{score:.2f}"
