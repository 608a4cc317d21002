"""Forced prefixes: translations that begin as they are told to."""

import math
from typing import Any, NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import State, Stepper


class PrefixedState(NamedTuple):
    """The inner state, each row's prefix, and how many words are written."""

    inner: State
    prefixes: Int[Tensor, "rows longest"]
    length: int

    def pick(self, rows: Int[Tensor, " rows"]) -> "PrefixedState":
        """The inner state and the prefixes of the chosen rows."""
        return PrefixedState(self.inner.pick(rows), self.prefixes[rows], self.length)


class Prefixed:
    """A stepper around a stepper: while a sentence's prefix lasts, every word but the prefix's has probability 0.

    The forced words keep the log-probability that the model gives them. `prefixes` is padded with `pad`.
    """

    def __init__(self, inner: Stepper, prefixes: Int[Tensor, "batch longest"], pad: int) -> None:
        self.inner, self.prefixes, self.pad = inner, prefixes, pad

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], room: int
    ) -> PrefixedState:
        """The inner stepper's first state, nothing forced yet."""
        return PrefixedState(self.inner.start(source, visible, room), self.prefixes, 0)

    def step(
        self, words: Int[Tensor, "rows new"], state: PrefixedState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], PrefixedState]:
        """The inner log-probabilities, −∞ wherever the prefix says another word."""
        log_probabilities, inner = self.inner.step(words, state.inner)
        new = words.shape[1]
        wanted: Tensor = state.prefixes[:, state.length : state.length + new]
        if wanted.shape[1]:
            forced = log_probabilities[:, : wanted.shape[1]]
            allowed: Any = forced.new_full(forced.shape, -math.inf).scatter(2, wanted.unsqueeze(2), 0.0)
            forced += allowed.masked_fill((wanted == self.pad).unsqueeze(2), 0.0)
        return log_probabilities, PrefixedState(inner, state.prefixes, state.length + new)
