"""Several models as one: the mean of their probabilities (Table 2's ensembles)."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState


class EnsembleState(NamedTuple):
    """The members' states, in the members' order."""

    members: tuple[StepperState, ...]

    def pick(self, rows: Int[Tensor, " rows"]) -> "EnsembleState":
        """Every member's state of the chosen rows."""
        return EnsembleState(tuple(state.pick(rows) for state in self.members))


class Ensemble:
    """A stepper around steppers that share a vocabulary."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        self.members = tuple(members)

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> EnsembleState:
        """Every member's first state."""
        return EnsembleState(tuple(member.start(source, visible, max_length) for member in self.members))

    def step(
        self, tokens: Int[Tensor, "rows new"], state: EnsembleState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], EnsembleState]:
        """The logarithm of the mean of the members' probabilities."""
        steps: list[tuple[Tensor, Any]] = [
            member.step(tokens, part) for member, part in zip(self.members, state.members, strict=True)
        ]
        stacked = torch.stack([log_probabilities for log_probabilities, _ in steps])
        mean = stacked.logsumexp(0) - math.log(len(steps))
        return mean, EnsembleState(tuple(part for _, part in steps))
