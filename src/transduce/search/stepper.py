"""The stepper: all that a search knows of a model."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@runtime_checkable
class StepperState(Protocol):
    """Where a search stands after some tokens; a step consumes it."""

    def pick(self, rows: Int[Tensor, " rows"]) -> "StepperState":
        """The state of the chosen rows, in that order: those of a sentence side by side, sentences as they were.

        A row may be chosen several times or not at all; a sentence without a row is gone. On a GPU, where to look
        would be to wait, as many rows as before may be taken to be as many of each sentence as before.
        """
        ...


@runtime_checkable
class Stepper(Protocol):
    """Gives the log-probability of every next token, for rows that are hypotheses of sentences.

    A model is one; an ensemble, a forced prefix, a constraint are steppers around steppers.
    """

    def start(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int) -> Any:
        """The `StepperState` before the first token, one row a sentence, for at most `max_length` tokens."""
        ...

    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Log-probabilities of the token after each of `tokens`, and the `StepperState` with `tokens` written.

        The log-probabilities are the caller's to write into.
        """
        ...


class SearchProblem(NamedTuple):
    """A batch of sentences to search for."""

    source: Int[Tensor, "batch source"]
    visible: Bool[Tensor, "batch source"]
    bounds: Int[Tensor, " batch"]  # the most tokens a translation may have, the end symbol counted
    begin: int
    end: int
    banned: tuple[int, ...]  # ids that are no tokens: never chosen

    @property
    def max_length(self) -> int:
        """The largest bound."""
        return int(self.bounds.max())


def pad_rows(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device | None = None
) -> Int[Tensor, "rows longest"]:
    """Rows of ids, padded to the longest."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], dtype=torch.long, device=device)
