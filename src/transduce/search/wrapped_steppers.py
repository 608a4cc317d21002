"""Steppers that wrap other steppers: ensembles, forced prefixes, and a ban on repeated n-grams.

A wrapper has the same methods as any stepper, `start` and `step`, and its state has `pick`, so a search uses it like a
model. It changes the log-probabilities that the inner stepper returns. Wrappers can be combined, for example a forced
prefix around an ensemble.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState


class EnsembleState(NamedTuple):
    """The states of the members of an ensemble, in the order of the members."""

    members: tuple[StepperState, ...]

    def pick(self, rows: Int[Tensor, " rows"]) -> "EnsembleState":
        """Returns the state of the chosen rows."""
        return EnsembleState(tuple(state.pick(rows) for state in self.members))


class Ensemble:
    """Wraps several steppers with the same vocabulary, and averages their probabilities (Table 2)."""

    def __init__(self, members: Sequence[Stepper]) -> None:
        self.members = tuple(members)

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> EnsembleState:
        """Starts all members of the ensemble."""
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


class ForcedPrefixState(NamedTuple):
    """The inner state, the prefix of each row, and the number of tokens that have been written."""

    inner: StepperState
    prefixes: Int[Tensor, "rows prefix"]
    length: int

    def pick(self, rows: Int[Tensor, " rows"]) -> "ForcedPrefixState":
        """Returns the state of the chosen rows."""
        return ForcedPrefixState(self.inner.pick(rows), self.prefixes[rows], self.length)


class ForcedPrefix:
    """Wraps a stepper so that each translation begins with the prefix of its sentence.

    Within the prefix, every other token has probability 0, and the token of the prefix keeps the log-probability that
    the model gives it. `prefixes` is padded with `pad`. Directly after a prefix, a token has probability 0 if
    `may_follow` is False for it, for example because it would continue the last word of the prefix.
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
        """Starts the inner stepper, with no tokens written yet."""
        return ForcedPrefixState(self.inner.start(source, visible, max_length), self.prefixes, 0)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: ForcedPrefixState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], ForcedPrefixState]:
        """Returns the inner log-probabilities and the state after `tokens`.

        The log-probability of a token that contradicts the prefix, or may not follow it, is −∞.
        """
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


class WrittenState(NamedTuple):
    """The inner state, the tokens that each row has written, and how many tokens at its beginning are exempt."""

    inner: StepperState
    written: Int[Tensor, "rows length"]  # begins with the BOS token
    exempt: Int[Tensor, " rows"]

    def pick(self, rows: Int[Tensor, " rows"]) -> "WrittenState":
        """Returns the state of the chosen rows."""
        return WrittenState(self.inner.pick(rows), self.written[rows], self.exempt[rows])


class NoRepeatedNgrams:
    """Wraps a stepper, and gives a log-probability of −∞ to tokens that would repeat an n-gram of `size` tokens.

    This prevents loops like "the man the man the man". `exempt` is the number of tokens at the beginning of each
    sentence that may contain repetitions, for example because they are a forced prefix.
    """

    def __init__(self, inner: Stepper, size: int, exempt: Int[Tensor, " batch"]) -> None:
        self.inner, self.size, self.exempt = inner, size, exempt

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> WrittenState:
        """Starts the inner stepper, with no tokens written yet."""
        inner = self.inner.start(source, visible, max_length)
        return WrittenState(inner, self.exempt.new_zeros(len(self.exempt), 0), self.exempt)

    def step(
        self, tokens: Int[Tensor, "rows new"], state: WrittenState
    ) -> tuple[Float[Tensor, "rows new vocabulary"], WrittenState]:
        """Returns the inner log-probabilities and the state after `tokens`.

        The log-probability of a token that would repeat an n-gram is −∞.
        """
        log_probabilities, inner = self.inner.step(tokens, state.inner)
        written = state.written
        for column in range(tokens.shape[1]):
            written = torch.cat([written, tokens[:, column : column + 1]], dim=1)
            log_probabilities[:, column].masked_fill_(
                self._repeats(written, state.exempt, log_probabilities), -math.inf
            )
        return log_probabilities, WrittenState(inner, written, state.exempt)

    def _repeats(
        self,
        written: Int[Tensor, "rows length"],
        exempt: Int[Tensor, " rows"],
        log_probabilities: Float[Tensor, "rows new vocabulary"],
    ) -> Bool[Tensor, "rows vocabulary"]:
        """Returns a mask of the tokens that would complete an n-gram which `written` already contains.

        As long as a row consists only of exempt tokens, its mask is all False. The first column of `written` is the BOS
        token.
        """
        repeats = log_probabilities.new_zeros(len(written), log_probabilities.shape[2], dtype=torch.int)
        tokens = written[:, 1:]
        if tokens.shape[1] >= self.size:
            ngrams = tokens.unfold(1, self.size, 1)  # [rows, n-grams, size]
            last = tokens[:, tokens.shape[1] - self.size + 1 :]
            begins = (ngrams[:, :, :-1] == last.unsqueeze(1)).all(2) & (exempt <= tokens.shape[1]).unsqueeze(1)
            repeats.scatter_add_(1, ngrams[:, :, -1], begins.int())
        return repeats > 0
