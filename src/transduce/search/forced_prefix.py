"""Forced prefixes: translations that must begin with given tokens."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState


class ForcedPrefixState(NamedTuple):
    """The inner state, the prefix of each row, and the number of tokens written."""

    inner: StepperState
    prefixes: Int[Tensor, "rows prefix"]
    length: int

    def pick(self, rows: Int[Tensor, " rows"]) -> "ForcedPrefixState":
        """Returns the state of the chosen rows."""
        return ForcedPrefixState(self.inner.pick(rows), self.prefixes[rows], self.length)


class ForcedPrefix:
    """A stepper around a stepper: within a sentence's prefix, every other token has probability 0.

    The tokens of the prefix keep the log-probability that the model gives them. `prefixes` is padded with `pad`.
    Directly after a prefix, tokens that `may_follow` excludes have probability 0, such as the rest of a longer word.
    """

    def __init__(
        self,
        inner: Stepper,
        prefixes: Int[Tensor, "batch prefix"],
        pad: int,
        may_follow: Bool[Tensor, " vocabulary"] | None = None,
    ) -> None:
        self.inner, self.prefixes, self.pad, self.may_follow = inner, prefixes, pad, may_follow

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> ForcedPrefixState:
        """Returns the state before the first token."""
        return ForcedPrefixState(self.inner.start(source, visible, max_length), self.prefixes, 0)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: ForcedPrefixState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], ForcedPrefixState]:
        """Returns the inner log-probabilities, −∞ where the prefix has another token, and the state after `tokens`."""
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        new = tokens.shape[1]
        if self.may_follow is not None:
            places = torch.arange(state.length, state.length + new, device=tokens.device)
            lengths = (state.prefixes != self.pad).sum(1, keepdim=True)
            follows = (places == lengths) & (lengths > 0)
            log_probabilities.masked_fill_(follows.unsqueeze(2) & ~self.may_follow, -math.inf)
        prefix: Tensor = state.prefixes[:, state.length : state.length + new]
        if prefix.shape[1]:
            forced = log_probabilities[:, : prefix.shape[1]]
            bias: Any = forced.new_full(forced.shape, -math.inf).scatter(2, prefix.unsqueeze(2), 0.0)
            forced += bias.masked_fill((prefix == self.pad).unsqueeze(2), 0.0)
        return log_probabilities, ForcedPrefixState(inner, state.prefixes, state.length + new)
