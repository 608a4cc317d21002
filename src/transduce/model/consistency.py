"""R-Drop: cross-entropy of two passes with different dropout, and the divergence of their predictions.

With logits y and z of the two passes, p = softmax(y) and q = softmax(z), the loss of a token is the mean of both
cross-entropies and `strength` / 2 times the mean of KL(p‖q) and KL(q‖p) (Wu, Li et al. 2021). The sum of both
divergences is Σ (p − q)·d with d = y − z; its gradient by y is p − q + p·(d − Σ p·d), and by z the same with p, q and
the sign of d swapped. As in `cross_entropy` loss and gradients are computed together, a chunk of rows at a time.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from transduce.model.cross_entropy import Loss, add_product, chunk_loss, chunks, subtract_share

__all__ = ["ConsistentCrossEntropy"]


class ConsistentCrossEntropy(torch.autograd.Function):
    """Both sums of the loss as an autograd function, whose forward pass computes the gradients too."""

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weight: Tensor,
        target: Tensor,
        pad: int,
        shares: tuple[float, float],
        product_dtype: torch.dtype,
        strength: float,
    ) -> tuple[Tensor, Tensor]:
        """Returns the sums of the smoothed loss with the divergence, and of the unsmoothed loss of both passes."""
        states = torch.stack([first, second]).to(product_dtype)
        sums, gradients = consistency(states, weight.to(product_dtype), target, pad, shares, strength)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(sums.unsmoothed)
        return sums.smoothed, sums.unsmoothed

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, unsmoothed: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients by both states and the weight, computed in the forward pass."""
        (first, second), weight = ctx.saved_tensors
        return first * smoothed, second * smoothed, weight * smoothed, None, None, None, None, None


def consistency(
    states: Float[Tensor, "2 rows d_model"],
    weight: Float[Tensor, "vocabulary d_model"],
    target: Int[Tensor, " rows"],
    pad: int,
    shares: tuple[float, float],
    strength: float,
) -> tuple[Loss, tuple[Float[Tensor, "2 rows d_model"], Float[Tensor, "vocabulary d_model"]]]:
    """Returns the sums, and the gradients of the smoothed one by the states of both passes and by the weight."""
    sum_dtype = torch.promote_types(weight.dtype, torch.float32)
    (extra, share), present = shares, (target != pad).to(sum_dtype)
    summed_weight = weight.sum(0, dtype=sum_dtype)
    counted = states * present.to(states.dtype).unsqueeze(1)
    states_gradient, weight_gradient = torch.empty_like(states), torch.zeros_like(weight, dtype=sum_dtype)
    losses = torch.zeros(2, dtype=sum_dtype, device=target.device)
    chunk = _compiled_chunk if _can_compile(states, summed_weight) else _chunk
    for part in chunks(states[0], 2 * len(weight)):
        logits = functional.linear(states[:, part].flatten(0, 1), weight)
        losses_of_part, gradient = chunk(logits, target[part], present[part], extra, strength)
        losses += losses_of_part
        gradient = gradient.to(weight.dtype)
        states_gradient[:, part] = (gradient @ weight).unflatten(0, (2, -1))
        add_product(weight_gradient, gradient.T, counted[:, part].flatten(0, 1))
        del logits, gradient  # before the next chunk needs their memory
    smoothed = losses[0] - share / 2 * (counted.to(sum_dtype) @ summed_weight).sum()
    for pass_states, gradient in zip(counted, states_gradient, strict=True):
        subtract_share(share / 2, gradient, summed_weight, present, weight_gradient, pass_states)
    return Loss(smoothed, losses[1]), (states_gradient, weight_gradient)


def _chunk(
    logits: Float[Tensor, "rows_of_both vocabulary"],
    tokens: Int[Tensor, " rows"],
    present: Float[Tensor, " rows"],
    extra: float,
    strength: float,
) -> tuple[Float[Tensor, "2"], Float[Tensor, "rows_of_both vocabulary"]]:
    """Returns the sums of both losses without the term of `share`, and the gradient of the smoothed by the logits.

    The gradients of the cross-entropies are p − extra·δ and q − extra·δ. Their difference is p − q.
    """
    target_logits, surprisal, cross_entropy_gradient = chunk_loss(logits, tokens.repeat(2), extra)
    first, second = cross_entropy_gradient.chunk(2)
    difference = torch.sub(*logits.chunk(2)).to(first.dtype)
    places = torch.arange(len(tokens), device=tokens.device), tokens
    at_target = difference[places].to(present.dtype)
    # torch sums in float32 and rounds the result; with another type of the result it is ten times as slow on a CPU.
    sums = [(each * difference).sum(1).to(present.dtype) for each in (first, second)]
    surprisal, target_logits = (values.view(2, -1).sum(0, dtype=present.dtype) for values in (surprisal, target_logits))
    loss = (surprisal + (1 - extra) * target_logits) / 2 + strength / 4 * (sums[0] - sums[1])
    gradient = torch.empty_like(cross_entropy_gradient)
    for place, own, other, own_sum in ((0, first, second, sums[0]), (1, second, first, sums[1])):
        weight = (1 - 2 * place) * strength / 4
        mean = own_sum + extra * at_target  # Σ p·d, or Σ q·d
        offset = (0.5 + strength / 4 - weight * mean).to(own.dtype).unsqueeze(1)
        part = gradient.chunk(2)[place]
        torch.add(offset, difference, alpha=weight, out=part).mul_(own).sub_(other, alpha=strength / 4)
        part[places] += (weight * extra * (at_target - mean)).to(part.dtype)
    return torch.stack([(loss * present).sum(), (surprisal / 2 * present).sum()]), gradient


def _can_compile(states: Float[Tensor, "2 rows d_model"], summed_weight: Float[Tensor, " d_model"]) -> bool:
    """Returns whether the compiled pass computes the same: in float32 on a CPU, where all numbers are finite."""
    if not states.is_cpu or states.dtype != torch.float32 or not _has_numba():
        return False
    return bool((states.sum() + summed_weight.sum()).isfinite())


@cache
def _has_numba() -> bool:
    return find_spec("numba") is not None


def _compiled_chunk(
    logits: Float[Tensor, "rows_of_both vocabulary"],
    tokens: Int[Tensor, " rows"],
    present: Float[Tensor, " rows"],
    extra: float,
    strength: float,
) -> tuple[Float[Tensor, "2"], Float[Tensor, "rows_of_both vocabulary"]]:
    """Returns what `_chunk` returns, in a third of the time: one pass over the logits, which become the gradient."""
    from transduce.model.compiled.losses import consistent_gradient  # numba takes a second to import

    both = logits.view(2, len(tokens), -1)
    target_logits, surprisal, divergence = consistent_gradient(both, tokens, extra, strength)
    loss = (surprisal + (1 - extra) * target_logits) / 2 + strength / 4 * divergence
    return torch.stack([(loss * present).sum(), (surprisal / 2 * present).sum()]), logits
