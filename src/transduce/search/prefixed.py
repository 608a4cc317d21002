"""Forced prefixes: translations that begin as they are told to."""

import math
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState


class ForcedPrefixState(NamedTuple):
    """The inner state, each row's prefix, and how many tokens are written."""

    inner: StepperState
    prefixes: Int[Tensor, "rows longest"]
    length: int

    def pick(self, rows: Int[Tensor, " rows"]) -> "ForcedPrefixState":
        """The inner state and the prefixes of the chosen rows."""
        return ForcedPrefixState(self.inner.pick(rows), self.prefixes[rows], self.length)


class ForcedPrefix:
    """A stepper around a stepper: while a sentence's prefix lasts, every token but the prefix's has probability 0.

    The forced tokens keep the log-probability that the model gives them. `prefixes` is padded with `pad`.
    """

    def __init__(self, inner: Stepper, prefixes: Int[Tensor, "batch longest"], pad: int) -> None:
        self.inner, self.prefixes, self.pad = inner, prefixes, pad

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> ForcedPrefixState:
        """The inner stepper's first state, nothing forced yet."""
        return ForcedPrefixState(self.inner.start(source, visible, max_length), self.prefixes, 0)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: ForcedPrefixState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], ForcedPrefixState]:
        """The inner log-probabilities, −∞ wherever the prefix says another token."""
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        new = tokens.shape[1]
        wanted: Tensor = state.prefixes[:, state.length : state.length + new]
        if wanted.shape[1]:
            forced = log_probabilities[:, : wanted.shape[1]]
            allowed: Any = forced.new_full(forced.shape, -math.inf).scatter(2, wanted.unsqueeze(2), 0.0)
            forced += allowed.masked_fill((wanted == self.pad).unsqueeze(2), 0.0)
        return log_probabilities, ForcedPrefixState(inner, state.prefixes, state.length + new)
