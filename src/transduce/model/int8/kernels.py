"""Kernels between two int8 products of a search, each one pass over its rows; compiled by numba.

A kernel reads a product without row scales and bias, and applies both. It writes the input of the next product: a byte
a feature, where 128 stands for 0, and a scale a row (see `quantise`). Rows are independent except in attention.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray

from transduce.model.int8.compilation import compile_kernel

_CONFIG: Any = numba.config
try:  # several threads may call kernels on numba's OpenMP layer, but not on its own work queue
    importlib.import_module("numba.np.ufunc.omppool")
    _CONFIG.THREADING_LAYER, THREADED = "omp", True
    _torch_threads = torch.get_num_threads()
    numba.get_num_threads()  # starts the threads and sets OpenMP's number, which torch shares, to that of the cores
    torch.set_num_threads(_torch_threads)
except ImportError:
    THREADED = False

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Indices = NDArray[np.int64]
Slots = NDArray[np.int32]

# Infinity and NaN do not occur. Only sums, which are functions of their own, may be reordered, so that they are
# vectorised: with other code reordered, kernels just compiled and kernels from the cache differ in their last bits.
_FINITE = {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}
_inlined = njit(fastmath=_FINITE, error_model="numpy", inline="always")
_summed = njit(fastmath=_FINITE | {"reassoc"}, error_model="numpy", nogil=True)
_OPTIONS: Any = {"parallel": THREADED, "fastmath": _FINITE, "error_model": "numpy", "nogil": True}


def _kernel(signature: str) -> Callable[[Any], Any]:
    """Returns a decorator that compiles a function for the types of `signature`, or loads it from numba's cache."""
    return lambda function: compile_kernel(function, signature, _OPTIONS)


_float, _int, _index = np.float32, np.int32, np.uint64

MIN_EXPONENT = _float(-60.0)  # e^−60 is negligible beside 1, and far from the denormal numbers that slow a processor
MIN_SCALE = _float(1.2e-38)


def use_threads(threads: int) -> None:
    """Sets the number of threads for the kernels that the calling thread runs."""
    if THREADED:
        numba.set_num_threads(max(1, min(threads, _CONFIG.NUMBA_NUM_THREADS)))


@_inlined
def _exponential(x: np.float32) -> np.float32:
    """Returns e^x for x ≤ 0, or e^`MIN_EXPONENT` if that is larger: 2^integer times a polynomial of the fraction.

    The relative error is at most 7e-7 for x ≥ −10, and 4e-6 below, where e^x adds little to a sum.
    """
    scaled = max(x, MIN_EXPONENT) * _float(1.44269504)
    integer = np.rint(scaled)
    fraction = scaled - integer
    power = _float(1.5403530e-4) * fraction + _float(1.3333558e-3)
    power = power * fraction + _float(9.6181291e-3)
    power = power * fraction + _float(5.5504109e-2)
    power = power * fraction + _float(2.4022651e-1)
    power = power * fraction + _float(6.9314718e-1)
    power = power * fraction + _float(1.0)
    bits = _int((_int(integer) + 127) << 23)
    return power * bits.view(_float)


@_summed
def _sum(row: Floats, count: int) -> np.float32:
    total = _float(0)
    for i in range(count):
        total += row[i]
    return total


@_summed
def _sum_of_squares(row: Floats, mean: np.float32) -> np.float32:
    total = _float(0)
    for i in range(row.shape[0]):
        total += (row[i] - mean) * (row[i] - mean)
    return total


@_summed
def _sum_of_exponentials(row: Floats, top: np.float32, scale: np.float32) -> np.float32:
    total = _float(0)
    for i in range(row.shape[0]):
        total += _exponential((row[i] - top) * scale)
    return total


@_summed
def _dot(query: Floats, query_at: int, key_values: Floats, slot: np.uint64, key_at: int, width: int) -> np.float32:
    total = _float(0)
    for i in range(width):
        total += query[_index(query_at + i)] * key_values[slot, _index(key_at + i)]
    return total


@_inlined
def _ordered(bits: np.int32) -> np.int32:
    """Maps the bit pattern of a float to an integer that sorts like the float; applied twice, returns the pattern."""
    return _int(bits ^ ((bits >> 31) & 0x7FFFFFFF))


@_inlined
def _maximum(row: Floats) -> np.float32:
    """Returns the largest number, compared as integers: comparisons of floats are not vectorised because of NaN."""
    bits, top = row.view(_int), _int(-0x7FFFFFFF)
    for i in range(row.shape[0]):
        top = max(top, _ordered(bits[i]))
    top_bits = _int(_ordered(top))
    return top_bits.view(_float)


@_inlined
def _quantise(row: Floats, quantised: Bytes) -> np.float32:
    """Writes the row in int8 to `quantised` and returns its scale."""
    bits, top = row.view(_int), _int(0)
    for i in range(row.shape[0]):
        top = max(top, _int(bits[i] & 0x7FFFFFFF))
    top_bits = _int(top)
    scale = max(top_bits.view(_float) / _float(127), MIN_SCALE)
    inverse = _float(1) / scale
    for i in range(row.shape[0]):
        quantised[i] = np.uint8(_int(np.rint(row[i] * inverse)) + 128)
    return scale


@_inlined
def _normalise(row: Floats, gain: Floats, shift: Floats, epsilon: np.float32, out: Floats) -> None:
    mean = _sum(row, row.shape[0]) / _float(row.shape[0])
    inverse = _float(1) / np.sqrt(_sum_of_squares(row, mean) / _float(row.shape[0]) + epsilon)
    for i in range(row.shape[0]):
        out[i] = (row[i] - mean) * inverse * gain[i] + shift[i]


@_kernel("void(f4[:,::1], u1[:,::1], f4[::1])")
def quantise_rows(states: Floats, quantised: Bytes, scales: Floats) -> None:
    """Quantises states [rows features]."""
    for r in prange(states.shape[0]):
        scales[r] = _quantise(states[r], quantised[r])


@_kernel("void(f4[:,::1], f4[::1], f4[::1], f4, u1[:,::1], f4[::1])")
def normalise_rows(
    states: Floats, gain: Floats, shift: Floats, epsilon: np.float32, quantised: Bytes, scales: Floats
) -> None:
    """Quantises LayerNorm(states)."""
    for r in prange(states.shape[0]):
        row = np.empty(states.shape[1], _float)
        _normalise(states[r], gain, shift, epsilon, row)
        scales[r] = _quantise(row, quantised[r])


@_kernel("void(f4[:,::1], f4[::1], f4[::1])")
def scale_rows(product: Floats, scales: Floats, bias: Floats) -> None:
    """Turns an unscaled product into x Wᵀ + b, in place."""
    for r in prange(product.shape[0]):
        row, scale = product[r], scales[r]
        for i in range(row.shape[0]):
            row[i] = row[i] * scale + bias[i]


@_kernel("void(f4[:,::1], f4[::1], f4[::1], u1[:,::1], f4[::1])")
def rectify_rows(product: Floats, scales: Floats, bias: Floats, quantised: Bytes, next_scales: Floats) -> None:
    """Quantises max(0, x W1 + b1) for the product with W2 (equation 2); overwrites `product`."""
    for r in prange(product.shape[0]):
        row, scale = product[r], scales[r]
        for i in range(row.shape[0]):
            row[i] = max(row[i] * scale + bias[i], _float(0))
        next_scales[r] = _quantise(row, quantised[r])


@_kernel("void(f4[:,::1], f4[::1], f4[::1], f4[:,::1], b1, f4[::1], f4[::1], f4, u1[:,::1], f4[::1])")
def add_and_normalise(
    product: Floats,
    scales: Floats,
    bias: Floats,
    states: Floats,
    pre_norm: bool,
    gain: Floats,
    shift: Floats,
    epsilon: np.float32,
    quantised: Bytes,
    next_scales: Floats,
) -> None:
    """Adds a sub-layer's output, whose last product is `product`, to its input x, and quantises the next input.

    Post-norm: `states` become LayerNorm(x + Sublayer(x)). With `pre_norm`, `states` become x + Sublayer(x), `product`
    is overwritten, and the norm is that of the next sub-layer. The next input is the normalised sum in both.
    """
    for r in prange(product.shape[0]):
        row, state, scale = product[r], states[r], scales[r]
        for i in range(row.shape[0]):
            state[i] += row[i] * scale + bias[i]
        out = row if pre_norm else state
        _normalise(state, gain, shift, epsilon, out)
        next_scales[r] = _quantise(out, quantised[r])


@_kernel("void(f4[:,::1], f4[::1])")
def log_softmax_rows(logits: Floats, scales: Floats) -> None:
    """Turns the unscaled product of the logits into log-probabilities, in place."""
    for r in prange(logits.shape[0]):
        row, scale = logits[r], scales[r]
        top = _maximum(row)
        total = _float(np.log(_sum_of_exponentials(row, top, scale)))
        for i in range(row.shape[0]):
            row[i] = (row[i] - top) * scale - total


@_inlined
def _softmax(scores: Floats, count: int) -> None:
    """Replaces the first `count` scores by their softmax."""
    top = scores[0]
    for t in range(1, count):
        top = max(top, scores[t])
    for t in range(count):
        scores[t] = _exponential(scores[t] - top)
    inverse = _float(1) / _sum(scores, count)
    for t in range(count):
        scores[t] *= inverse


@_inlined
def _score(
    query: Floats,
    key_values: Floats,
    visible: Slots,
    count: int,
    query_at: int,
    key_at: int,
    d_k: int,
    scale: np.float32,
    scores: Floats,
) -> None:
    for t in range(count):
        scores[t] = _dot(query, query_at, key_values, _index(visible[t]), key_at, d_k) * scale


@_inlined
def _add_values(
    weights: Floats, key_values: Floats, visible: Slots, count: int, out_at: int, value_at: int, d_v: int, out: Floats
) -> None:
    for t in range(count):
        slot, weight = _index(visible[t]), weights[t]
        for i in range(d_v):
            out[_index(out_at + i)] += weight * key_values[slot, _index(value_at + i)]


@_kernel("void(f4[:,::1], f4[:,::1], i8, i4[:,::1], i8[::1], i8[::1], i8, i8, i8, f4, u1[:,::1], f4[::1])")
def attend(
    queries: Floats,
    key_values: Floats,
    first: int,
    slots: Slots,
    groups: Indices,
    counts: Indices,
    heads: int,
    d_k: int,
    d_v: int,
    scale: np.float32,
    quantised: Bytes,
    scales: Floats,
) -> None:
    """Computes equation 1 head by head and quantises the concatenated heads; row r begins with the queries of r.

    Row r attends to the first `counts[groups[r]]` of `slots[groups[r]]`. A slot is a row of `key_values`: from feature
    `first` on it has the keys of all heads, then the values of all heads.
    """
    for r in prange(queries.shape[0]):
        scores, out = np.empty(slots.shape[1], _float), np.zeros(heads * d_v, _float)
        row, visible, count = queries[r], slots[groups[r]], counts[groups[r]]
        for h in range(heads):
            query_at, key_at, value_at = h * d_k, first + h * d_k, first + heads * d_k + h * d_v
            # A constant width is vectorised better: twice as fast.
            if d_k == 64:
                _score(row, key_values, visible, count, query_at, key_at, 64, scale, scores)
            else:
                _score(row, key_values, visible, count, query_at, key_at, d_k, scale, scores)
            _softmax(scores, count)
            if d_v == 64:
                _add_values(scores, key_values, visible, count, h * d_v, value_at, 64, out)
            else:
                _add_values(scores, key_values, visible, count, h * d_v, value_at, d_v, out)
        scales[r] = _quantise(out, quantised[r])
