"""From the decoder's states to tokens: log-probabilities, and the loss without ever holding all logits (3.4, 5.4).

The loss of a token with logits z and smoothed target q is −Σ q log softmax(z). With q = (1−ε)·δ + ε/V it is
logsumexp(z) − (1−ε)·z_target − ε·mean(z), whose gradient by z is softmax(z) − q: forward and backward are worked out
together, a chunk of rows at a time, so that a large vocabulary needs little memory.
"""

from typing import Annotated, Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.settings import Spec

CHUNK = 4 * 2**20  # logits at once: with fewer, adding up the gradient of the matrix costs more than its products


class Smoothing(Spec):
    """Label smoothing: how much of the target's probability is given away, and to whom.

    `all`: ε/V to every token, the target included (Szegedy's definition, and torch's). `others`: ε/(V−1) to every
    token but the target (the released code).
    """

    epsilon: float = Field(default=0.0, ge=0, lt=1)
    over: Literal["all", "others"] = "all"

    def shares(self, vocabulary: int) -> tuple[int | float, int | float]:
        """(extra on the target, share of every token): they make q = extra·δ + share."""
        share = self.epsilon / (vocabulary if self.over == "all" else vocabulary - 1)
        return 1 - share * vocabulary, share


class Loss(NamedTuple):
    """Sums over the tokens that are not padding, in nats."""

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
        if not weight.is_meta:
            nn.init.xavier_uniform_(weight)
        return Readout(weight, pad)


ReadoutSpec = Annotated[Tied | Separate, Field(discriminator="kind")]


class Readout(nn.Module):
    """softmax(states · Wᵀ): log-probabilities of the next token, or the loss of the right one."""

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
        device = states.device.type
        narrow = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.weight.dtype
        shares = smoothing.shares(len(self.weight))
        rows, tokens = states.flatten(0, 1), target.flatten()
        if rows.is_cpu:  # a GPU would have to be asked how many there are
            kept = (tokens != self.pad).nonzero().squeeze(1)
            rows, tokens = rows.index_select(0, kept), tokens[kept]
        with torch.autocast(device, enabled=False):
            return Loss(*_ChunkedLoss.apply(rows, self.weight, tokens, self.pad, shares, narrow))


class _ChunkedLoss(torch.autograd.Function):
    """Both sums of the loss; the gradients are made on the way forward, chunk by chunk.

    Of `states` [tokens, d_model], `weight` [vocabulary, d_model] and `target` [tokens], with products in `narrow`.
    The gradient by the logits is softmax(z) − share − extra·δ, `shares` being `Smoothing.shares`. Only the
    softmax and the δ are written out: what is the same for every token of the vocabulary is a product of two vectors,
    taken off the results at the end.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        target: Tensor,
        pad: int,
        shares: tuple[float, float],
        narrow: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        exact = torch.promote_types(states.dtype, torch.float32)
        wide = torch.float32 if narrow == torch.float16 else narrow  # in whose range an unlikely token is not 0
        states, weight = states.to(narrow), weight.to(narrow)
        extra, share = shares
        present = (target != pad).to(exact)
        summed_weight = weight.sum(0, dtype=exact)
        counted = states * present.to(states.dtype).unsqueeze(1)
        states_gradient = torch.empty_like(states)
        weight_gradient = torch.zeros_like(weight, dtype=exact)
        right, surprise = torch.empty_like(present), torch.empty_like(present)
        rows = max(CHUNK // len(weight), 16)
        if states.is_cuda:
            rows = max(rows, 8192)
        for first in range(0, len(states), rows):
            part = slice(first, first + rows)
            right[part], surprise[part], gradient = _chunk(states[part], weight, target[part], extra, wide)
            if wanted:
                gradient = gradient.to(narrow)
                torch.mm(gradient, weight, out=states_gradient[part])
                _add_product(weight_gradient, gradient.T, counted[part])
        total = states.to(exact) @ summed_weight
        smoothed = ((surprise + (1 - extra) * right - share * total) * present).sum()
        unsmoothed = (surprise * present).sum()
        if wanted:
            states_gradient.sub_(share * summed_weight).mul_(present.unsqueeze(1))
            weight_gradient.sub_(share * counted.sum(0, dtype=exact))
            ctx.save_for_backward(states_gradient, weight_gradient)
        ctx.mark_non_differentiable(unsmoothed)
        return smoothed, unsmoothed

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, unsmoothed: Tensor) -> tuple[Tensor | None, ...]:
        states_gradient, weight_gradient = ctx.saved_tensors
        return states_gradient * smoothed, weight_gradient * smoothed, None, None, None, None


def _chunk(
    states: Float[Tensor, "rows d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    tokens: Int[Tensor, " rows"],
    extra: float,
    wide: torch.dtype,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, "rows vocabulary"]]:
    """The right tokens' logits, −log of their probabilities, and softmax(z) − extra·δ, in `wide`."""
    places = torch.arange(len(tokens), device=tokens.device), tokens
    logits = functional.linear(states, weight)
    probabilities = logits.softmax(1, dtype=wide)
    likely = probabilities[places]
    surprise = _surprise(likely.to(torch.promote_types(wide, torch.float32)), logits, places, torch.finfo(wide).tiny)
    probabilities[places] = likely - extra  # by places: torch's scatter copies all of a narrow tensor
    return logits[places], surprise, probabilities


def _surprise(
    likely: Float[Tensor, " rows"],
    logits: Float[Tensor, "rows vocabulary"],
    places: tuple[Tensor, Tensor],
    least: float,
) -> Float[Tensor, " rows"]:
    """−log of the probabilities of the right tokens; one below the `least` normal number is worked out from its logits.

    A GPU would have to be asked whether there is one: there it counts as the least.
    """
    surprise = -likely.clamp(min=least).log()
    if likely.is_cpu and likely.amin() < least:
        lost = likely < least
        exact = logits[lost].to(likely.dtype)
        surprise[lost] = exact.logsumexp(1) - logits[places][lost]
    return surprise


def _add_product(total: Tensor, one: Tensor, other: Tensor) -> None:
    """`total` += `one` @ `other`, in the precision of `total`: sums of many narrow numbers lose their small terms."""
    if one.dtype == total.dtype:
        total.addmm_(one, other)
    else:
        total += one @ other
