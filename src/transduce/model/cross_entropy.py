"""Cross-entropy with label smoothing (section 5.4), in chunks so that the logits are never all in memory at once.

The loss of a token with logits z and smoothed target distribution q is −Σ q log softmax(z). With q = (1−ε)·δ + ε/V,
where δ is 1 at the target token and 0 elsewhere and V is the size of the vocabulary, the loss is
logsumexp(z) − (1−ε)·z_target − ε·mean(z), and its gradient with respect to z is softmax(z) − q. The loss and its
gradient are computed together, one chunk of rows at a time, so that a large vocabulary needs little memory.
"""

from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from transduce.settings import Spec

CHUNK = 4 * 2**20  # logits in a chunk; with fewer, summing the weight's gradient would cost more than the products

# On a CPU, oneDNN computes 16-bit matrix multiplications, and caches compiled code for each number of rows that it
# meets. Rounding the number of rows to a multiple of this number keeps the cache small. Multiplications in other types
# cache nothing.
ROWS_MULTIPLE = 64


class Smoothing(Spec):
    """Label smoothing, which takes a probability ε from the target token and spreads it over the vocabulary.

    Let V be the size of the vocabulary. With `over: all`, each token gets ε/V, including the target (the definition of
    Szegedy et al. and of torch). With `over: others`, each token except the target gets ε/(V−1) (the definition in the
    released code).
    """

    epsilon: float = Field(default=0.0, ge=0, lt=1)
    over: Literal["all", "others"] = "all"

    def shares(self, vocabulary: int) -> tuple[int | float, int | float]:
        """Returns (extra, share), where the smoothed target distribution is q = extra·δ + share.

        Each token has the probability `share`, and the target token has `extra` in addition.
        """
        share = self.epsilon / (vocabulary if self.over == "all" else vocabulary - 1)
        return 1 - share * vocabulary, share


class Loss(NamedTuple):
    """The loss with and without label smoothing, in nats, summed over all target tokens except padding."""

    smoothed: Float[Tensor, ""]
    unsmoothed: Float[Tensor, ""]  # without gradient; exp(unsmoothed / tokens) is the perplexity


class Evaluation(NamedTuple):
    """The loss with and without label smoothing, in nats, and the number of correctly predicted tokens.

    All three are summed over the target tokens, excluding padding.
    """

    smoothed: Float[Tensor, ""]
    unsmoothed: Float[Tensor, ""]
    correct: Int[Tensor, ""]


class ChunkedCrossEntropy(torch.autograd.Function):
    """An autograd function for the summed loss, which computes the gradients in its forward pass."""

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
        """Returns the sums of the smoothed and the unsmoothed loss; see `chunked_cross_entropy` for the arguments."""
        with_gradients = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        sums, gradients = chunked_cross_entropy(
            states, weight, target, pad, shares, product_dtype, with_gradients=with_gradients
        )
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(sums.unsmoothed)
        return sums.smoothed, sums.unsmoothed

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, unsmoothed: Tensor) -> tuple[Tensor | None, ...]:
        """Multiplies the gradients that `forward` computed by `smoothed`, the gradient of the first result."""
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
    """Returns the sums of the loss, and the gradients of the smoothed sum with respect to `states` and `weight`.

    `shares` is the result of `Smoothing.shares`. Without `with_gradients`, no gradients are returned, and the correctly
    predicted tokens are counted instead. The gradient with respect to the logits is softmax(z) − share − extra·δ. Each
    chunk computes softmax(z) − extra·δ, and the contribution of `share` is subtracted once at the end.
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
    """Subtracts the contribution of `share` from both gradients in place, and returns them.

    Also sets the gradient of the hidden states to zero in the rows of padding.
    """
    states_gradient.sub_(share * summed_weight).mul_(present.unsqueeze(1))
    weight_gradient.sub_(share * counted.sum(0, dtype=weight_gradient.dtype))
    return states_gradient, weight_gradient


def chunks(states: Float[Tensor, "rows d_model"], vocabulary: int) -> list[slice]:
    """Divides the rows into slices of about `CHUNK` logits each.

    On a GPU a slice has at least 8192 rows, because fewer rows would not keep the device busy.
    """
    rows = max(CHUNK // vocabulary, 8192 if states.is_cuda else 16)
    if states.element_size() <= 2:
        rows = rows // ROWS_MULTIPLE * ROWS_MULTIPLE or rows
    return [slice(first, first + rows) for first in range(0, len(states), rows)]


def chunk_loss(
    logits: Float[Tensor, "rows vocabulary"], tokens: Int[Tensor, " rows"], extra: float
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, "rows vocabulary"]]:
    """Returns the logits of the target tokens, their negative log-probabilities, and softmax(z) − extra·δ."""
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
    """Returns the negative logarithm of the probabilities.

    Where a probability is below `smallest`, the smallest normal number of its type, the logarithm is computed from the
    logits instead. On a GPU such a probability is replaced by `smallest`, because checking for it would synchronise the
    device.
    """
    surprisal = -probabilities.clamp(min=smallest).log()
    if probabilities.is_cpu and probabilities.amin() < smallest:
        lost = probabilities < smallest
        lost_logits = logits[lost].to(probabilities.dtype)
        surprisal[lost] = lost_logits.logsumexp(1) - logits[places][lost]
    return surprisal


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds `left` @ `right` to `total`, in the precision of `total`; a sum in bfloat16 would lose small terms."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
