"""The stepper, which is the interface between search and models, and the choice of the most probable next tokens."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@runtime_checkable
class StepperState(Protocol):
    """The state of a search after some tokens.

    A step may write into the state that is passed to it, so only the state that it returns may be used afterwards.
    """

    def pick(self, rows: Int[Tensor, " rows"]) -> "StepperState":
        """Returns the state of the chosen rows, in the given order.

        A row may be chosen several times or not at all; a sentence without a row leaves the state. The rows of a
        sentence must be adjacent, and the sentences must keep their order. On a GPU, if the total number of rows has
        not changed, a stepper may assume that every sentence has kept its number of rows, because a check would
        synchronise the device.
        """
        ...


@runtime_checkable
class Stepper(Protocol):
    """Computes the log-probabilities of all possible next tokens for each row.

    A row is one hypothesis of a sentence. Every model is a stepper. Ensembles and forced prefixes are steppers that
    wrap other steppers.
    """

    def start(self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int) -> Any:
        """Returns the `StepperState` before the first token, with one row for each sentence.

        At most `max_length` tokens may be appended to each row.
        """
        ...

    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Returns log-probabilities of the token that follows each of `tokens`, and the `StepperState` after `tokens`.

        The caller may overwrite the log-probabilities.
        """
        ...


class SearchProblem(NamedTuple):
    """A batch of sentences to translate, with the length bounds and special tokens that a search needs."""

    source: Int[Tensor, "batch source"]
    visible: Bool[Tensor, "batch source"]
    bounds: Int[Tensor, " batch"]  # maximum number of tokens in each translation, including EOS
    begin: int
    end: int
    banned: tuple[int, ...]  # ids that are never chosen, for example padding
    banned_first: tuple[int, ...] = ()  # additional ids that are never chosen as the first token

    @property
    def max_length(self) -> int:
        """The largest of the bounds."""
        return int(self.bounds.max())

    def banned_at(self, place: int) -> tuple[int, ...]:
        """Returns the ids that must not be chosen as token number `place`, counted from 0."""
        return self.banned if place else (*self.banned, *self.banned_first)


def pad_rows(
    rows: Sequence[Sequence[int]], pad: int, device: torch.device | None = None
) -> Int[Tensor, "rows longest"]:
    """Converts rows of ids to a tensor, in which all rows are padded to the length of the longest."""
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
    """Returns the log-probability of each token of `target_out`, and 0 for padding.

    The sum of a row is the log-probability of the whole translation.
    """
    log_probabilities, _ = stepper.step(target_in, stepper.start(source, visible, target_in.shape[1]))
    return scores_of_tokens(log_probabilities, target_out, pad)


def scores_of_tokens(
    log_probabilities: Float[Tensor, "batch target vocabulary"], target_out: Int[Tensor, "batch target"], pad: int
) -> Float[Tensor, "batch target"]:
    """Returns the log-probability of each token of `target_out`, and 0 for padding."""
    chosen = log_probabilities.gather(2, target_out.unsqueeze(2)).squeeze(2)
    return chosen.masked_fill(target_out == pad, 0.0)


FOLDS = 32  # number of folds into which `top_k` divides a row


class BestTokens(NamedTuple):
    """The most probable next tokens of each row, best first, their log-probabilities, and the next state."""

    log_probabilities: Float[Tensor, "rows count"]
    tokens: Int[Tensor, "rows count"]
    state: Any


def best_tokens(
    stepper: Stepper, tokens: Int[Tensor, "rows new"], state: Any, count: int, banned: tuple[int, ...]
) -> BestTokens:
    """Appends `tokens` to the rows, and returns the `count` most probable next tokens of each row.

    If there are fewer tokens in the vocabulary, all of them are returned. Banned tokens have a log-probability of −∞.
    """
    log_probabilities, state = stepper.step(tokens, state)
    log_probabilities = log_probabilities[:, -1]
    ban(log_probabilities, banned)
    return BestTokens(*top_k(log_probabilities, count), state)


def ban(log_probabilities: Float[Tensor, "rows vocabulary"], banned: tuple[int, ...]) -> None:
    """Sets the log-probabilities of the `banned` tokens to −∞, in place."""
    for token in banned:
        log_probabilities[:, token] = -math.inf


def top_k(values: Float[Tensor, "rows columns"], k: int) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Returns the `k` largest values of each row, largest first, and their columns; all values if a row has fewer.

    On a CPU, `torch.topk` reads the values one by one. This function is faster because it vectorises most of the work.
    It divides a row into `FOLDS` folds of equal width, and takes the maximum over all folds at each position. The `k`
    largest values are at the positions of the `k` largest maxima, or in the remainder of the row that the folds do not
    cover.
    """
    rows, columns = values.shape
    width = columns // FOLDS
    if values.is_cuda or width < 4 * k:
        return values.topk(min(k, columns))
    folded = values[:, : width * FOLDS].unflatten(1, (FOLDS, width))
    places = folded.amax(1).topk(k).indices
    in_folds = (places.unsqueeze(1) + width * torch.arange(FOLDS).unsqueeze(1)).flatten(1)
    rest = torch.arange(width * FOLDS, columns).expand(rows, -1)
    candidates = torch.cat([in_folds, rest], dim=1)
    best, chosen = values.gather(1, candidates).topk(k)
    return best, candidates.gather(1, chosen)
