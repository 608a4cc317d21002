"""The most probable next tokens of each hypothesis."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper

FOLDS = 32  # of a row, in `top_k`


class BestTokens(NamedTuple):
    """The most probable next tokens of each row, best first, their log-probabilities, and the next state."""

    log_probabilities: Float[Tensor, "rows count"]
    tokens: Int[Tensor, "rows count"]
    state: Any


def best_tokens(
    stepper: Stepper, tokens: Int[Tensor, "rows new"], state: Any, count: int, banned: tuple[int, ...]
) -> BestTokens:
    """Appends `tokens` and returns the `count` most probable tokens after them, fewer where there are fewer.

    A banned token has a log-probability of −∞.
    """
    log_probabilities, state = stepper.step(tokens, state)
    log_probabilities = log_probabilities[:, -1]
    ban(log_probabilities, banned)
    return BestTokens(*top_k(log_probabilities, count), state)


def ban(log_probabilities: Float[Tensor, "rows vocabulary"], banned: tuple[int, ...]) -> None:
    """Makes the log-probabilities of tokens −∞, in place."""
    for token in banned:
        log_probabilities[:, token] = -math.inf


def top_k(values: Float[Tensor, "rows columns"], k: int) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Returns the `k` largest values of each row, the largest first, and their columns; all values of shorter rows.

    On a CPU `torch.topk` reads the values one by one. This function cuts a row into `FOLDS` folds of equal width and
    takes the maximum over the folds, which is vectorised. The `k` largest values are in the places with the `k` largest
    maxima, or in the rest that the folds leave.
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
