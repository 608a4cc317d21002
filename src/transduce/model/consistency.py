"""R-Drop (Wu, Li et al. 2021): the cross-entropy of two passes with different dropout, plus their divergence.

Let y and z be the logits of the two passes, p = softmax(y) and q = softmax(z). The loss of a token is the mean of the
two cross-entropies plus `strength` / 2 times the mean of KL(p‖q) and KL(q‖p). The two divergences add up to
Σ (p − q)·d, where d = y − z. The gradient of this sum with respect to y is p − q + p·(d − Σ p·d); its gradient with
respect to z is the same with p and q swapped and the sign of d reversed. As in `cross_entropy`, the loss and its
gradients are computed together, one chunk of rows at a time.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from transduce.model.cross_entropy import Loss, add_product, chunk_loss, chunks, subtract_share
from transduce.runtime.device import has_numba


class ConsistentCrossEntropy(torch.autograd.Function):
    """An autograd function for the R-Drop loss, which computes the gradients in its forward pass."""

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
        """Returns the sum of the smoothed loss with the divergence, and the sum of the unsmoothed loss.

        Both losses are averaged over the two passes and summed over the target tokens.
        """
        states = torch.stack([first, second]).to(product_dtype)
        sums, gradients = consistency(states, weight.to(product_dtype), target, pad, shares, strength)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(sums.unsmoothed)
        return sums.smoothed, sums.unsmoothed

    @staticmethod
    def backward(ctx: Any, smoothed: Tensor, unsmoothed: Tensor) -> tuple[Tensor | None, ...]:
        """Multiplies the gradients that `forward` computed by `smoothed`, the gradient of the first result."""
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
    """Returns the sums of the loss, and the gradients of the smoothed sum with respect to `states` and `weight`."""
    sum_dtype = torch.promote_types(weight.dtype, torch.float32)
    (extra, share), present = shares, (target != pad).to(sum_dtype)
    summed_weight = weight.sum(0, dtype=sum_dtype)
    counted = states * present.to(states.dtype).unsqueeze(1)
    states_gradient, weight_gradient = torch.empty_like(states), torch.zeros_like(weight, dtype=sum_dtype)
    losses = torch.zeros(2, dtype=sum_dtype, device=target.device)
    row_losses: Any = _row_losses
    is_compilable = states.is_cpu and states.dtype in (torch.float32, torch.bfloat16) and has_numba()
    if is_compilable and (states.sum() + summed_weight.sum()).isfinite():  # the compiled code assumes finite numbers
        from transduce.model.compiled.losses import row_losses  # three times as fast; importing numba takes a second
    for chunk in chunks(states[0], 2 * len(weight)):
        chunk_states = counted[:, chunk].flatten(0, 1)
        logits = functional.linear(chunk_states, weight).unflatten(0, (2, -1))
        *terms, gradient = row_losses(logits, target[chunk], extra, strength)
        target_logits, surprisal, divergence = (values * present[chunk] for values in terms)
        smoothed = (surprisal + (1 - extra) * target_logits) / 2 + strength / 4 * divergence
        losses += torch.stack([smoothed.sum(), surprisal.sum() / 2])
        gradient = gradient.to(weight.dtype).flatten(0, 1)
        states_gradient[:, chunk] = (gradient @ weight).unflatten(0, (2, -1))
        add_product(weight_gradient, gradient.T, chunk_states)
        del logits, gradient  # before the next chunk needs their memory
    smoothed = losses[0] - share / 2 * (counted.to(sum_dtype) @ summed_weight).sum()
    for pass_states, gradient in zip(counted, states_gradient, strict=True):
        subtract_share(share / 2, gradient, summed_weight, present, weight_gradient, pass_states)
    return Loss(smoothed, losses[1]), (states_gradient, weight_gradient)


def _row_losses(
    logits: Float[Tensor, "2 rows vocabulary"], tokens: Int[Tensor, " rows"], extra: float, strength: float
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, "2 rows vocabulary"]]:
    """Returns three terms of the loss for each row, and the gradient of the loss with respect to the logits.

    The first term is the sum of the target token's logits in both passes. The second is the sum of its negative
    log-probabilities in both passes. The third is the divergence Σ (p − q)·d. The gradient does not include the
    contribution of `share` from label smoothing, which the caller subtracts. The code starts from the gradients of the
    two cross-entropies, p − extra·δ and q − extra·δ, whose difference is p − q.
    """
    target_logits, surprisal, cross_entropy_gradient = chunk_loss(logits.flatten(0, 1), tokens.repeat(2), extra)
    first, second = cross_entropy_gradient.chunk(2)
    difference = torch.sub(*logits).to(first.dtype)
    targets = torch.arange(len(tokens), device=tokens.device), tokens
    sum_dtype = torch.promote_types(first.dtype, torch.float32)
    at_target = difference[targets].to(sum_dtype)
    # torch accumulates these sums in float32 and then rounds them. On a CPU, asking torch for float32 results would
    # take ten times as long.
    sums = [(each * difference).sum(1).to(sum_dtype) for each in (first, second)]
    gradient = torch.empty_like(cross_entropy_gradient).unflatten(0, (2, -1))
    for index, own, other, own_sum in ((0, first, second, sums[0]), (1, second, first, sums[1])):
        weight = (1 - 2 * index) * strength / 4
        mean = own_sum + extra * at_target  # Σ p·d, or Σ q·d
        offset = (0.5 + strength / 4 - weight * mean).to(own.dtype).unsqueeze(1)
        own_gradient = gradient[index]
        torch.add(offset, difference, alpha=weight, out=own_gradient).mul_(own).sub_(other, alpha=strength / 4)
        own_gradient[targets] += (weight * extra * (at_target - mean)).to(own_gradient.dtype)
    both = (values.view(2, -1).sum(0, dtype=sum_dtype) for values in (target_logits, surprisal))
    return *both, sums[0] - sums[1], gradient
