"""A ban on repeated n-grams: loops such as "the man the man the man" cannot be written."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState

__all__ = ["NoRepeatedNgrams"]


class WrittenState(NamedTuple):
    """The inner state, the tokens that each row has written, and how many of them are exempt."""

    inner: StepperState
    written: Int[Tensor, "rows length"]  # the begin symbol first
    exempt: Int[Tensor, " rows"]

    def pick(self, rows: Int[Tensor, " rows"]) -> "WrittenState":
        """Returns the state of the chosen rows."""
        return WrittenState(self.inner.pick(rows), self.written[rows], self.exempt[rows])


class NoRepeatedNgrams:
    """A stepper around a stepper: a token that would end an n-gram for the second time has −∞.

    `exempt` counts the first tokens of each sentence that are free to repeat, such as those of a forced prefix.
    """

    def __init__(self, inner: Stepper, size: int, exempt: Int[Tensor, " batch"]) -> None:
        self.inner, self.size, self.exempt = inner, size, exempt

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> WrittenState:
        """Returns the state before the first token."""
        inner = self.inner.start(source, visible, max_length)
        return WrittenState(inner, self.exempt.new_zeros(len(self.exempt), 0), self.exempt)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: WrittenState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], WrittenState]:
        """Returns the inner log-probabilities, −∞ where an n-gram would stand twice, and the state after `tokens`."""
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        written = state.written
        for place in range(tokens.shape[1]):
            written = torch.cat([written, tokens[:, place : place + 1]], dim=1)
            log_probabilities[:, place].masked_fill_(self._repeats(written, state.exempt, log_probabilities), -math.inf)
        return log_probabilities, WrittenState(inner, written, state.exempt)

    def _repeats(
        self,
        written: Int[Tensor, "rows length"],
        exempt: Int[Tensor, " rows"],
        log_probabilities: Float[Tensor, "rows new vocabulary"],
    ) -> Bool[Tensor, "rows vocabulary"]:
        """Returns the tokens that end an n-gram which stands in `written`, begin symbol first; none while exempt."""
        repeats = log_probabilities.new_zeros(len(written), log_probabilities.shape[2], dtype=torch.int)
        tokens = written[:, 1:]
        if tokens.shape[1] >= self.size:
            ngrams = tokens.unfold(1, self.size, 1)  # [rows, n-grams, size]
            last = tokens[:, tokens.shape[1] - self.size + 1 :]
            begins = (ngrams[:, :, :-1] == last.unsqueeze(1)).all(2) & (exempt <= tokens.shape[1]).unsqueeze(1)
            repeats.scatter_add_(1, ngrams[:, :, -1], begins.int())
        return repeats > 0
