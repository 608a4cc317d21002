"""Cross-entropy with label smoothing, computed in chunks: the logits are never in memory all at once (section 5.4).

The loss of a token with logits z and smoothed target q is −Σ q log softmax(z). With q = (1−ε)·δ + ε/V it is
logsumexp(z) − (1−ε)·z_target − ε·mean(z), and its gradient with respect to z is softmax(z) − q. Loss and gradient are
computed together, a chunk of rows at a time, so that a large vocabulary needs little memory.
"""

from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from transduce.settings import Spec

CHUNK = 4 * 2**20  # logits in a chunk; if smaller, summing the weight's gradient would cost more than multiplying

# On a CPU, oneDNN computes 16-bit matrix multiplications and keeps compiled code for each number of rows. If every
# number of rows is a multiple of this number, oneDNN keeps only a few. Multiplications in other types keep nothing.
ROWS_MULTIPLE = 64


class Smoothing(Spec):
    """Label smoothing: the probability ε taken from the target, and the tokens that share it.

    `all`: every token gets ε/V, the target included (the definition of Szegedy et al. and of torch). `others`: every
    token but the target gets ε/(V−1) (the released code).
    """

    epsilon: float = Field(default=0.0, ge=0, lt=1)
    over: Literal["all", "others"] = "all"

    def shares(self, vocabulary: int) -> tuple[int | float, int | float]:
        """Returns (extra, share), where q = extra·δ + share: extra for the target, share for every token."""
        share = self.epsilon / (vocabulary if self.over == "all" else vocabulary - 1)
        return 1 - share * vocabulary, share


class Loss(NamedTuple):
    """Sums over the target tokens, excluding padding, in nats."""

    smoothed: Float[Tensor, ""]
    unsmoothed: Float[Tensor, ""]  # without gradient; exp(unsmoothed / tokens) is the perplexity


class Evaluation(NamedTuple):
    """Sums over the target tokens, excluding padding: both losses in nats, and the correctly predicted tokens."""

    smoothed: Float[Tensor, ""]
    unsmoothed: Float[Tensor, ""]
    correct: Int[Tensor, ""]


class ChunkedCrossEntropy(torch.autograd.Function):
    """Both sums of the loss as an autograd function. Its forward pass computes the gradients too."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        target: Tensor,
        pad: int,
        shares: tuple[float, float],
        product_dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """Returns the sums of the smoothed and the unsmoothed loss; arguments as in `chunked_cross_entropy`."""
        with_gradients = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        sums, gradients = chunked_cross_entropy(
            states, weight, target, pad, shares, product_dtype, with_gradients=with_gradients
        )
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(sums.unsmoothed)
        return sums.smoothed, sums.unsmoothed

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, unsmoothed: Tensor) -> tuple[Tensor | None, ...]:
        """Scales the gradients with respect to states and weight, which the forward pass computed."""
        states_gradient, weight_gradient = ctx.saved_tensors
        return states_gradient * smoothed, weight_gradient * smoothed, None, None, None, None


def chunked_cross_entropy(
    states: Float[Tensor, "rows d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    target: Int[Tensor, " rows"],
    pad: int,
    shares: tuple[float, float],
    product_dtype: torch.dtype,
    *,
    with_gradients: bool,
) -> tuple[Evaluation, tuple[Tensor, ...]]:
    """Returns the sums of the loss, and the gradients of the smoothed sum with respect to states and weight.

    `shares` is the result of `Smoothing.shares`. Correct tokens are counted only if no gradients are computed. The
    gradient with respect to the logits is softmax(z) − share − extra·δ. Each chunk computes softmax(z) − extra·δ; share
    is subtracted at the end.
    """
    sum_dtype = torch.promote_types(states.dtype, torch.float32)
    states, weight = states.to(product_dtype), weight.to(product_dtype)
    (extra, share), present = shares, (target != pad).to(sum_dtype)
    summed_weight = weight.sum(0, dtype=sum_dtype)
    target_logits, surprisal = torch.empty_like(present), torch.empty_like(present)
    correct = torch.zeros((), dtype=torch.long, device=states.device)
    if with_gradients:
        counted = states * present.to(states.dtype).unsqueeze(1)
        states_gradient, weight_gradient = torch.empty_like(states), torch.zeros_like(weight, dtype=sum_dtype)
    for chunk in chunks(states, len(weight)):
        logits = functional.linear(states[chunk], weight)
        target_logits[chunk], surprisal[chunk], gradient = chunk_loss(logits, target[chunk], extra)
        if with_gradients:
            gradient = gradient.to(product_dtype)
            torch.mm(gradient, weight, out=states_gradient[chunk])
            add_product(weight_gradient, gradient.T, counted[chunk])
        else:
            correct += ((logits.argmax(1) == target[chunk]) & (target[chunk] != pad)).sum()
        del logits, gradient  # before the next chunk needs their memory
    summed_logits = states.to(sum_dtype) @ summed_weight
    smoothed = ((surprisal + (1 - extra) * target_logits - share * summed_logits) * present).sum()
    sums = Evaluation(smoothed, (surprisal * present).sum(), correct)
    if not with_gradients:
        return sums, ()
    return sums, subtract_share(share, states_gradient, summed_weight, present, weight_gradient, counted)


def subtract_share(
    share: float,
    states_gradient: Float[Tensor, "rows d_model"],
    summed_weight: Float[Tensor, " d_model"],
    present: Float[Tensor, " rows"],
    weight_gradient: Float[Tensor, "vocabulary d_model"],
    counted: Float[Tensor, "rows d_model"],
) -> tuple[Tensor, Tensor]:
    """Subtracts the terms of `share` and zeroes the rows of padding, in place; returns both gradients."""
    states_gradient.sub_(share * summed_weight).mul_(present.unsqueeze(1))
    weight_gradient.sub_(share * counted.sum(0, dtype=weight_gradient.dtype))
    return states_gradient, weight_gradient


def chunks(states: Float[Tensor, "rows d_model"], vocabulary: int) -> list[slice]:
    """Cuts the rows into slices of about `CHUNK` logits each; more on a GPU, which needs more rows to stay busy."""
    rows = max(CHUNK // vocabulary, 8192 if states.is_cuda else 16)
    if states.element_size() <= 2:
        rows = rows // ROWS_MULTIPLE * ROWS_MULTIPLE or rows
    return [slice(first, first + rows) for first in range(0, len(states), rows)]


def chunk_loss(
    logits: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, " rows"], extra: float
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, "rows vocabulary"]]:
    """Returns the logits of the target tokens, −log of their probabilities, and softmax(z) − extra·δ."""
    # float16 would round small probabilities to 0.
    softmax_dtype = torch.float32 if logits.dtype == torch.float16 else logits.dtype
    places = torch.arange(len(tokens), device=tokens.device), tokens
    probabilities = logits.softmax(1, dtype=softmax_dtype)
    selected = probabilities[places]
    promoted = selected.to(torch.promote_types(softmax_dtype, torch.float32))
    surprisal = _surprisal(promoted, logits, places, torch.finfo(softmax_dtype).tiny)
    probabilities[places] = selected - extra  # by index: torch's scatter copies the whole of a bfloat16 tensor
    return logits[places], surprisal, probabilities


def _surprisal(
    probabilities: Float[Tensor, " rows"],
    logits: Float[Tensor, "rows vocabulary"],
    places: tuple[Tensor, Tensor],
    smallest: float,
) -> Float[Tensor, " rows"]:
    """Computes −log of probabilities; uses the logits if a probability is below `smallest`.

    `smallest` is the smallest normal number. On a GPU smaller probabilities count as `smallest`, because checking for
    them would synchronise the device.
    """
    surprisal = -probabilities.clamp(min=smallest).log()
    if probabilities.is_cpu and probabilities.amin() < smallest:
        lost = probabilities < smallest
        lost_logits = logits[lost].to(probabilities.dtype)
        surprisal[lost] = lost_logits.logsumexp(1) - logits[places][lost]
    return surprisal


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds `left` @ `right` to `total` in the precision of `total`; a sum in bfloat16 would lose small terms."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
