"""The loss and gradient of R-Drop in compiled code.

They are computed for one row of logits at a time, so that the rows of both passes stay in the processor's cache.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.model.compiled.compilation import cached, compiled, summed
from transduce.model.compiled.rows import Floats, exponential, maximum

_float = np.float32


def row_losses(
    logits: Float[Tensor, "2 rows vocabulary"], tokens: Int[Tensor, " rows"], extra: float, strength: float
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, " rows"], Float[Tensor, "2 rows vocabulary"]]:
    """Computes the same as `consistency._row_losses`, but overwrites the logits with the gradient.

    In the notation of the module `transduce.model.consistency`, the gradient with respect to y is
    (p − extra·δ)/2 + strength/4·(p − q + p·(d − Σ p·d)).
    """
    terms = torch.empty(3, len(tokens))
    is_float32 = logits.dtype == torch.float32
    replace, bits = (_replace_float32, logits) if is_float32 else (_replace_bfloat16, logits.view(torch.uint16))
    arrays, weights = [each.numpy() for each in (bits, tokens, terms)], (_float(extra), _float(strength))
    _in_threads(len(tokens), lambda first, last: replace(*arrays, weights, (first, last)))
    return *terms, logits


def _in_threads(rows: int, work: Callable[[int, int], Any]) -> None:
    """Splits the rows among as many threads as torch uses, and calls `work(first, last)` in each.

    `first` and `last` are the bounds of the thread's rows; `last` is excluded.
    """
    threads = min(torch.get_num_threads(), rows)
    if threads <= 1:
        work(0, rows)
        return
    bounds = [rows * number // threads for number in range(threads + 1)]
    list(_pool(threads).map(work, bounds, bounds[1:]))


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "loss")


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork; a forked process does not inherit the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


@summed
def _exponentials(row: Floats, top: np.float32, out: Floats) -> np.float32:
    """Writes e^(z − top) for each number z of a row to `out`, and returns their sum."""
    total = _float(0)
    for i in range(row.shape[0]):
        out[i] = exponential(row[i] - top)
        total += out[i]
    return total


@summed
def _product_with_difference(weights: Floats, first: Floats, second: Floats) -> np.float32:
    """Returns Σ w·(y − z), where w, y and z are rows of the same length."""
    total = _float(0)
    for i in range(weights.shape[0]):
        total += weights[i] * (first[i] - second[i])
    return total


@compiled
def _replace_rows(
    y: Floats, z: Floats, p: Floats, q: Floats, token: int, extra: np.float32, strength: np.float32
) -> tuple[np.float32, np.float32, np.float32]:
    """Replaces one row of logits from each pass with its gradient, and returns the three terms of the loss.

    `p` and `q` are scratch rows.
    """
    half, pull = _float(0.5), strength * _float(0.25)
    target = y[token] + z[token]
    top_y, top_z = maximum(y), maximum(z)
    total_p, total_q = _exponentials(y, top_y, p), _exponentials(z, top_z, q)
    surprisal = _float(np.log(total_p)) + _float(np.log(total_q)) + (top_y + top_z - target)
    inverse_p, inverse_q = _float(1) / total_p, _float(1) / total_q
    mean_p = _product_with_difference(p, y, z) * inverse_p
    mean_q = _product_with_difference(q, y, z) * inverse_q
    # Both gradients depend on both rows of logits, so both rows are overwritten in the same loop.
    for i in range(p.shape[0]):
        difference = y[i] - z[i]
        own, other = p[i] * inverse_p, q[i] * inverse_q
        y[i] = own * (half + pull * (_float(1) + difference - mean_p)) - pull * other
        z[i] = other * (half + pull * (_float(1) - difference + mean_q)) - pull * own
    y[token] -= half * extra
    z[token] -= half * extra
    return target, surprisal, mean_p - mean_q


@cached
def _replace_float32(logits: Any, tokens: Any, terms: Any, weights: Any, rows: Any) -> None:
    """Replaces the logits of some rows with their gradients, and writes the terms of the loss.

    `logits` has the shape [2 rows vocabulary] and `terms` the shape [3 rows]; `rows` is the range of rows to process.
    `weights` is the pair (extra, strength).
    """
    p, q = np.empty_like(logits[0, 0]), np.empty_like(logits[0, 0])
    for r in range(*rows):
        row, other_row = logits[0, r], logits[1, r]
        terms[0, r], terms[1, r], terms[2, r] = _replace_rows(row, other_row, p, q, tokens[r], *weights)


@cached
def _replace_bfloat16(logits: Any, tokens: Any, terms: Any, weights: Any, rows: Any) -> None:
    """Does the same as `_replace_float32` for bfloat16 logits, which are passed as their bits; computes in float32."""
    # These are four separate arrays, because using the rows of a single array would take seven times as long.
    y, z = np.empty(logits.shape[2], _float), np.empty(logits.shape[2], _float)
    p, q = np.empty_like(y), np.empty_like(y)
    for r in range(*rows):
        _widen(logits[0, r], y)
        _widen(logits[1, r], z)
        terms[0, r], terms[1, r], terms[2, r] = _replace_rows(y, z, p, q, tokens[r], *weights)
        _narrow(y, logits[0, r])
        _narrow(z, logits[1, r])


@compiled
def _widen(row: Any, out: Floats) -> None:
    """Converts a row of bfloat16 numbers, which are passed as their bits, to float32.

    The 16 bits become the upper half of the 32 bits.
    """
    bits = out.view(np.uint32)
    for i in range(row.shape[0]):
        bits[i] = np.uint32(row[i]) << np.uint32(16)


@compiled
def _narrow(row: Floats, out: Any) -> None:
    """Rounds each number to bfloat16 in the same way as torch does, and writes its bits to `out`."""
    bits = row.view(np.uint32)
    for i in range(row.shape[0]):
        odd = (bits[i] >> np.uint32(16)) & np.uint32(1)
        out[i] = np.uint16((bits[i] + np.uint32(0x7FFF) + odd) >> np.uint32(16))
