"""From the decoder's states to words: log-probabilities, and the loss without ever holding all logits (3.4, 5.4).

The loss of a word with logits z and smoothed target q is −Σ q log softmax(z). With q = (1−ε)·δ + ε/V it is
logsumexp(z) − (1−ε)·z_target − ε·mean(z), whose gradient by z is softmax(z) − q: forward and backward are worked out
together, a chunk of rows at a time, so that logits live and die in cache.
"""

from typing import Annotated, Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.settings import Spec

CHUNK_BYTES = 4 * 2**20  # of logits at once: fits the cache a core has to itself, and keeps products efficient


class Smoothing(Spec):
    """Label smoothing: how much of the target's probability is given away, and to whom.

    `all`: ε/V to every word, the target included (Szegedy's definition, and torch's). `others`: ε/(V−1) to every
    word but the target (the released code).
    """

    epsilon: float = Field(default=0.0, ge=0, lt=1)
    over: Literal["all", "others"] = "all"

    def shares(self, vocabulary: int) -> tuple[float, float]:
        """(extra on the target, share of every word): they make q = extra·δ + share."""
        share = self.epsilon / (vocabulary if self.over == "all" else vocabulary - 1)
        return 1 - share * vocabulary, share


class Loss(NamedTuple):
    """Sums over the words that are not padding, in nats."""

    smoothed: Float[Tensor, ""]
    unsmoothed: Float[Tensor, ""]  # what perplexity is made of; carries no gradient


class Tied(Spec):
    """The projection before the softmax is the target's embedding matrix (section 3.4); no bias."""

    kind: Literal["tied"] = "tied"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """The module, around the embedding's own matrix."""
        return Readout(embedding, pad)


class Separate(Spec):
    """A projection of its own."""

    kind: Literal["separate"] = "separate"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """The module, with a new matrix of the embedding's shape."""
        weight = nn.Parameter(torch.empty_like(embedding))
        nn.init.xavier_uniform_(weight)
        return Readout(weight, pad)


ReadoutSpec = Annotated[Tied | Separate, Field(discriminator="kind")]


class Readout(nn.Module):
    """softmax(states · Wᵀ): log-probabilities of the next word, or the loss of the right one."""

    def __init__(self, weight: nn.Parameter, pad: int) -> None:
        super().__init__()
        self.weight, self.pad = weight, pad

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocabulary"]:
        """Log-probabilities, in float32 at least."""
        logits = functional.linear(states, self.weight)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(
        self,
        states: Float[Tensor, "batch target d_model"],
        target: Int[Tensor, "batch target"],
        smoothing: Smoothing,
    ) -> Loss:
        """Sums of the smoothed and the unsmoothed loss over `target`, padding left out."""
        shares = smoothing.shares(len(self.weight))
        rows = states.flatten(0, 1)
        weight: Tensor = self.weight
        if torch.is_autocast_enabled(states.device.type):
            kind = torch.get_autocast_dtype(states.device.type)
            rows, weight = rows.to(kind), weight.to(kind)
        return Loss(*_ChunkedLoss.apply(rows, weight, target.flatten(), self.pad, shares))


class _ChunkedLoss(torch.autograd.Function):
    """Both sums of the loss; the gradients are made on the way forward, chunk by chunk."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, target: Tensor, pad: int, shares: tuple[float, float]
    ) -> tuple[Tensor, Tensor]:
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        states_gradient = torch.empty_like(states) if wanted else None
        weight_gradient = torch.zeros_like(weight) if wanted else None
        smoothed = states.new_zeros((), dtype=torch.promote_types(states.dtype, torch.float32))
        unsmoothed = torch.zeros_like(smoothed)
        rows = max(CHUNK_BYTES // (weight.shape[0] * weight.element_size()), 16)
        if states.is_cuda:
            rows = max(rows, 4096)
        for first in range(0, len(states), rows):
            part = slice(first, first + rows)
            logits = functional.linear(states[part], weight)
            sums, gradient = _sums_and_gradient(logits.to(smoothed.dtype), target[part], pad, shares)
            smoothed += sums[0]
            unsmoothed += sums[1]
            if states_gradient is not None and weight_gradient is not None:
                gradient = gradient.to(states.dtype)
                torch.mm(gradient, weight, out=states_gradient[part])
                weight_gradient.addmm_(gradient.T, states[part])
        ctx.save_for_backward(states_gradient, weight_gradient)
        ctx.mark_non_differentiable(unsmoothed)
        return smoothed, unsmoothed

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, unsmoothed: Tensor) -> tuple[Tensor | None, ...]:
        states_gradient, weight_gradient = ctx.saved_tensors
        return states_gradient * smoothed, weight_gradient * smoothed, None, None, None


def _sums_and_gradient(
    logits: Float[Tensor, "rows vocabulary"], target: Int[Tensor, " rows"], pad: int, shares: tuple[float, float]
) -> tuple[tuple[Tensor, Tensor], Float[Tensor, "rows vocabulary"]]:
    """Both sums of the loss of these rows, and the gradient of the first, which takes the place of `logits`."""
    extra, share = shares
    present, column = (target != pad).to(logits.dtype), target.unsqueeze(1)
    right, total = logits.gather(1, column).squeeze(1), logits.sum(1)
    # One exponential serves the normaliser and the gradient.
    greatest = logits.amax(1)
    mass = logits.sub_(greatest.unsqueeze(1)).exp_().sum(1)
    normaliser = greatest + mass.log()
    smoothed = ((normaliser - extra * right - share * total) * present).sum()
    unsmoothed = ((normaliser - right) * present).sum()
    logits.mul_((present / mass).unsqueeze(1)).sub_((share * present).unsqueeze(1))
    logits.scatter_add_(1, column, (-extra * present).unsqueeze(1))
    return (smoothed, unsmoothed), logits
