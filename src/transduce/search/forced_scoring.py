"""Forced scoring: the log-probability of a translation that is given."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper


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
