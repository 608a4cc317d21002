"""The most probable next tokens of each hypothesis."""

import math
from typing import Any, NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper
from transduce.search.top_k import top_k


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
