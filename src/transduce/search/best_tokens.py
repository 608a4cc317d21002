"""The most probable next tokens of each hypothesis."""

import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper
from transduce.search.top_k import top_k


class BestTokens(NamedTuple):
    """The most probable next tokens of each row, best first, their log-probabilities, and the next state."""

    log_probabilities: Float[Tensor, "rows count"]
    tokens: Int[Tensor, "rows count"]
    state: Any


@runtime_checkable
class RankingStepper(Stepper, Protocol):
    """A stepper that finds the most probable tokens itself, without all log-probabilities."""

    def best(self, tokens: Int[Tensor, "rows 1"], state: Any, count: int, banned: tuple[int, ...]) -> Any:
        """Returns log-probabilities, tokens and state, as `BestTokens`; `banned` tokens are not chosen."""
        ...


def best_tokens(
    stepper: Stepper, tokens: Int[Tensor, "rows new"], state: Any, count: int, banned: tuple[int, ...]
) -> BestTokens:
    """Appends `tokens` and returns the `count` most probable tokens after them, fewer where there are fewer.

    A banned token has a log-probability of −∞, or is left out.
    """
    if tokens.shape[1] == 1 and hasattr(stepper, "best"):
        return BestTokens(*stepper.best(tokens, state, count, banned))
    log_probabilities, state = stepper.step(tokens, state)
    log_probabilities = log_probabilities[:, -1]
    ban(log_probabilities, banned)
    return BestTokens(*top_k(log_probabilities, count), state)


def ban(log_probabilities: Float[Tensor, "rows vocabulary"], banned: tuple[int, ...]) -> None:
    """Makes the log-probabilities of tokens −∞, in place."""
    for token in banned:
        log_probabilities[:, token] = -math.inf
