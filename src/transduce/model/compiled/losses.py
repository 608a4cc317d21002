"""The loss of R-Drop and its gradient, a row of logits of each pass at a time, so that both stay in the cache."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.model.compiled.compilation import cached, summed
from transduce.model.compiled.rows import Floats, exponential, maximum

__all__ = ["row_losses"]

_float = np.float32


def row_losses(
    logits: Float[Tensor, "2 rows vocabulary"], tokens: Int[Tensor, " rows"], extra: float, strength: float
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, "2 rows vocabulary"]]:
    """Returns what `consistency._row_losses` returns; the gradient replaces the logits.

    With the symbols there, the gradient by y is (p − extra·δ)/2 + strength/4·(p − q + p·(d − Σ p·d)).
    """
    targets, surprisals, divergences = torch.empty(3, len(tokens))
    arrays = [each.numpy() for each in (*logits, tokens, targets, surprisals, divergences)]
    weights = _float(extra), _float(strength)
    _in_threads(len(tokens), lambda first, last: _consistent(*arrays, *weights, first, last))
    return targets, surprisals, divergences, logits


def _in_threads(rows: int, work: Callable[[int, int], Any]) -> None:
    """Calls `work` with the first row and the row after the last, once a thread of torch."""
    threads = min(torch.get_num_threads(), rows)
    if threads <= 1:
        work(0, rows)
        return
    bounds = [rows * number // threads for number in range(threads + 1)]
    list(_pool(threads).map(work, bounds, bounds[1:]))


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "loss")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process does not have the threads


@summed
def _exponentials(row: Floats, top: np.float32, out: Floats) -> np.float32:
    """Writes e^(z − top), returns the sum."""
    total = _float(0)
    for i in range(row.shape[0]):
        out[i] = exponential(row[i] - top)
        total += out[i]
    return total


@summed
def _product_with_difference(weights: Floats, first: Floats, second: Floats) -> np.float32:
    """Returns Σ w·(y − z)."""
    total = _float(0)
    for i in range(weights.shape[0]):
        total += weights[i] * (first[i] - second[i])
    return total


@cached
def _consistent(
    logits: Any,
    other_logits: Any,
    tokens: Any,
    targets: Floats,
    surprisals: Floats,
    divergences: Floats,
    extra: np.float32,
    strength: np.float32,
    first: int,
    last: int,
) -> None:
    p, q = np.empty_like(logits[0]), np.empty_like(logits[0])
    half, pull = _float(0.5), strength * _float(0.25)
    for r in range(first, last):
        y, z, token = logits[r], other_logits[r], tokens[r]
        targets[r] = y[token] + z[token]
        top_y, top_z = maximum(y), maximum(z)
        total_p, total_q = _exponentials(y, top_y, p), _exponentials(z, top_z, q)
        surprisals[r] = _float(np.log(total_p)) + _float(np.log(total_q)) + (top_y + top_z - targets[r])
        inverse_p, inverse_q = _float(1) / total_p, _float(1) / total_q
        mean_p = _product_with_difference(p, y, z) * inverse_p
        mean_q = _product_with_difference(q, y, z) * inverse_q
        divergences[r] = mean_p - mean_q
        # Both gradients need both rows of logits, and replace them.
        for i in range(p.shape[0]):
            difference = y[i] - z[i]
            own, other = p[i] * inverse_p, q[i] * inverse_q
            y[i] = own * (half + pull * (_float(1) + difference - mean_p)) - pull * other
            z[i] = other * (half + pull * (_float(1) - difference + mean_q)) - pull * own
        y[token] -= half * extra
        z[token] -= half * extra
