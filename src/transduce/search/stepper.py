"""The stepper: the interface between search and models."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@runtime_checkable
class StepperState(Protocol):
    """State of a search after some tokens. A step consumes its state: use the state that it returns."""

    def pick(self, rows: Int[Tensor, " rows"]) -> "StepperState":
        """Returns the state of the chosen rows, in that order.

        A row may be chosen several times or not at all; a sentence without a row leaves the state. The rows of a
        sentence must be side by side, and the sentences in their old order. On a GPU, an unchanged number of rows may
        be taken to mean unchanged numbers for every sentence, because a check would synchronise.
        """
        ...


@runtime_checkable
class Stepper(Protocol):
    """Computes the log-probability of every next token; a row is one hypothesis of a sentence.

    A model is a stepper. An ensemble and a forced prefix are steppers around steppers.
    """

    def start(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int) -> Any:
        """Returns the `StepperState` before the first token: one row a sentence, for at most `max_length` tokens."""
        ...

    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Returns the log-probabilities of the token after each of `tokens`, and the `StepperState` after `tokens`.

        The caller may write into the log-probabilities.
        """
        ...


class SearchProblem(NamedTuple):
    """A batch of sentences to translate."""

    source: Int[Tensor, "batch source"]
    visible: Bool[Tensor, "batch source"]
    bounds: Int[Tensor, " batch"]  # most tokens of each translation, the end symbol counted
    begin: int
    end: int
    banned: tuple[int, ...]  # ids that are never chosen, such as padding
    banned_first: tuple[int, ...] = ()  # further ids that are not chosen as the first token

    @property
    def max_length(self) -> int:
        """The largest bound."""
        return int(self.bounds.max())

    def banned_at(self, place: int) -> tuple[int, ...]:
        """Returns the ids that are not chosen as token number `place`, counted from 0."""
        return self.banned if place else (*self.banned, *self.banned_first)


def pad_rows(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device | None = None
) -> Int[Tensor, "rows longest"]:
    """Returns rows of ids as one tensor, padded to the longest row."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], dtype=torch.long, device=device)


def forced_scores(
    stepper: Stepper,
    source: Int[Tensor, "batch source"],
    visible: Bool[Tensor, "batch source"],
    target_in: Int[Tensor, "batch target"],
    target_out: Int[Tensor, "batch target"],
    pad: int,
) -> Float[Tensor, "batch target"]:
    """Returns the log-probability of each token of `target_out`, 0 at padding; a row's sum is its translation's."""
    state = stepper.start(source, visible, target_in.shape[1])
    log_probabilities, _ = stepper.step(target_in, state)
    chosen = log_probabilities.gather(2, target_out.unsqueeze(2)).squeeze(2)
    return chosen.masked_fill(target_out == pad, 0.0)
