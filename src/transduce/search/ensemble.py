"""Ensembles: several models searched as one, by the mean of their probabilities (Table 2)."""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState


class EnsembleState(NamedTuple):
    """The states of the members, in the order of the members."""

    members: tuple[StepperState, ...]

    def pick(self, rows: Int[Tensor, " rows"]) -> "EnsembleState":
        """Returns the state of the chosen rows."""
        return EnsembleState(tuple(state.pick(rows) for state in self.members))


class Ensemble:
    """A stepper around steppers that share a vocabulary."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        self.members = tuple(members)

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> EnsembleState:
        """Returns the state before the first token."""
        return EnsembleState(tuple(member.start(source, visible, max_length) for member in self.members))

    def step(
        self, tokens: Int[Tensor, "rows new"], state: EnsembleState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], EnsembleState]:
        """Returns the logarithm of the mean of the members' probabilities, and the state after `tokens`."""
        steps: list[tuple[Tensor, Any]] = [
            member.step(tokens, member_state) for member, member_state in zip(self.members, state.members, strict=True)
        ]
        log_total = reduce(torch.logaddexp, (log_probabilities for log_probabilities, _ in steps))
        return log_total - math.log(len(steps)), EnsembleState(tuple(member_state for _, member_state in steps))
