"""What stands between two products of a search in int8, each in one pass over its rows; compiled by numba.

A product comes without the scale of its rows, their `steps`, and without its bias: both are applied where it is read.
What goes into the next product is left in bytes, 128 standing for 0, with `steps` of its own; `model/narrow.py` says
what these are. No row looks at another but in attention. What is changed in its place is said to be.
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
try:  # OpenMP's threads may be shared by a process's own; the others that numba may have may not
    importlib.import_module("numba.np.ufunc.omppool")
    _CONFIG.THREADING_LAYER, THREADED = "omp", True
    _told = torch.get_num_threads()
    numba.get_num_threads()  # begins them, and tells OpenMP as many as there are cores: torch would follow
    torch.set_num_threads(_told)
except ImportError:
    THREADED = False

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
Wholes = NDArray[np.int64]
Slots = NDArray[np.int32]

# Infinity and NaN do not come. Sums, which are functions of their own, may be taken in any order, which fills vectors;
# nothing else may: what has just been compiled would differ in its last bits from what the cache gives later.
_FINITE = {"nnan", "ninf", "nsz", "arcp", "contract", "afn"}
_inlined = njit(fastmath=_FINITE, error_model="numpy", inline="always")
_summed = njit(fastmath=_FINITE | {"reassoc"}, error_model="numpy", nogil=True)
_OPTIONS: Any = {"parallel": THREADED, "fastmath": _FINITE, "error_model": "numpy", "nogil": True}


def _pass(signature: str) -> Callable[[Any], Any]:
    """Compiles a function for the types of `signature`, or reads it from numba's cache."""
    return lambda function: compile_kernel(function, signature, _OPTIONS)


_float, _int, _index = np.float32, np.int32, np.uint64

LEAST = _float(-60.0)  # e to it is nothing beside 1, and still far from the numbers that a processor is slow with
SMALLEST = _float(1.2e-38)


def use_threads(threads: int) -> None:
    """How many threads share the rows, in what this thread calls from now on."""
    if THREADED:
        numba.set_num_threads(max(1, min(threads, _CONFIG.NUMBA_NUM_THREADS)))


@_inlined
def _exponential(x: np.float32) -> np.float32:
    """e^x of x ≤ 0, and no less than e^`LEAST`: 2^whole, and a polynomial of what is left.

    Wrong by at most 7e-7 of itself down to −10, and 4e-6 further on, where it adds little to any sum.
    """
    scaled = max(x, LEAST) * _float(1.44269504)
    whole = np.rint(scaled)
    rest = scaled - whole
    power = _float(1.5403530e-4) * rest + _float(1.3333558e-3)
    power = power * rest + _float(9.6181291e-3)
    power = power * rest + _float(5.5504109e-2)
    power = power * rest + _float(2.4022651e-1)
    power = power * rest + _float(6.9314718e-1)
    power = power * rest + _float(1.0)
    bits = _int((_int(whole) + 127) << 23)
    return power * bits.view(_float)


@_summed
def _total(row: Floats, count: int) -> np.float32:
    total = _float(0)
    for i in range(count):
        total += row[i]
    return total


@_summed
def _squares(row: Floats, mean: np.float32) -> np.float32:
    total = _float(0)
    for i in range(row.shape[0]):
        total += (row[i] - mean) * (row[i] - mean)
    return total


@_summed
def _exponentials(row: Floats, top: np.float32, step: np.float32) -> np.float32:
    total = _float(0)
    for i in range(row.shape[0]):
        total += _exponential((row[i] - top) * step)
    return total


@_summed
def _dot(query: Floats, at: int, known: Floats, slot: np.uint64, key: int, width: int) -> np.float32:
    total = _float(0)
    for i in range(width):
        total += query[_index(at + i)] * known[slot, _index(key + i)]
    return total


@_inlined
def _ordered(bits: np.int32) -> np.int32:
    """The bits of a number as a whole number that is as great among others of its kind, and back."""
    return _int(bits ^ ((bits >> 31) & 0x7FFFFFFF))


@_inlined
def _greatest(row: Floats) -> np.float32:
    """The greatest number, found among bits: numbers themselves would be compared one by one, for fear of NaN."""
    bits, top = row.view(_int), _int(-0x7FFFFFFF)
    for i in range(row.shape[0]):
        top = max(top, _ordered(bits[i]))
    found = _int(_ordered(top))
    return found.view(_float)


@_inlined
def _narrowed(row: Floats, whole: Bytes) -> np.float32:
    """Leaves the row in bytes in `whole`; gives its step."""
    bits, top = row.view(_int), _int(0)
    for i in range(row.shape[0]):
        top = max(top, _int(bits[i] & 0x7FFFFFFF))
    farthest = _int(top)
    step = max(farthest.view(_float) / _float(127), SMALLEST)
    inverse = _float(1) / step
    for i in range(row.shape[0]):
        whole[i] = np.uint8(_int(np.rint(row[i] * inverse)) + 128)
    return step


@_inlined
def _normalised(row: Floats, gain: Floats, shift: Floats, epsilon: np.float32, out: Floats) -> None:
    mean = _total(row, row.shape[0]) / _float(row.shape[0])
    inverse = _float(1) / np.sqrt(_squares(row, mean) / _float(row.shape[0]) + epsilon)
    for i in range(row.shape[0]):
        out[i] = (row[i] - mean) * inverse * gain[i] + shift[i]


@_pass("void(f4[:,::1], u1[:,::1], f4[::1])")
def narrowed(states: Floats, whole: Bytes, steps: Floats) -> None:
    """States [rows features] for a product."""
    for r in prange(states.shape[0]):
        steps[r] = _narrowed(states[r], whole[r])


@_pass("void(f4[:,::1], f4[::1], f4[::1], f4, u1[:,::1], f4[::1])")
def normalised(states: Floats, gain: Floats, shift: Floats, epsilon: np.float32, whole: Bytes, steps: Floats) -> None:
    """LayerNorm(states) for a product."""
    for r in prange(states.shape[0]):
        row = np.empty(states.shape[1], _float)
        _normalised(states[r], gain, shift, epsilon, row)
        steps[r] = _narrowed(row, whole[r])


@_pass("void(f4[:,::1], f4[::1], f4[::1])")
def scaled(product: Floats, steps: Floats, bias: Floats) -> None:
    """x Wᵀ + b itself, in the place of the product."""
    for r in prange(product.shape[0]):
        row, step = product[r], steps[r]
        for i in range(row.shape[0]):
            row[i] = row[i] * step + bias[i]


@_pass("void(f4[:,::1], f4[::1], f4[::1], u1[:,::1], f4[::1])")
def rectified(product: Floats, steps: Floats, bias: Floats, whole: Bytes, next_steps: Floats) -> None:
    """max(0, x W1 + b1) for the product with W2 (equation 2); the first product is lost."""
    for r in prange(product.shape[0]):
        row, step = product[r], steps[r]
        for i in range(row.shape[0]):
            row[i] = max(row[i] * step + bias[i], _float(0))
        next_steps[r] = _narrowed(row, whole[r])


@_pass("void(f4[:,::1], f4[::1], f4[::1], f4[:,::1], b1, f4[::1], f4[::1], f4, u1[:,::1], f4[::1])")
def joined(
    product: Floats,
    steps: Floats,
    bias: Floats,
    states: Floats,
    before: bool,
    gain: Floats,
    shift: Floats,
    epsilon: np.float32,
    whole: Bytes,
    next_steps: Floats,
) -> None:
    """LayerNorm(x + Sublayer(x)) in the place of x, `states`, and for the next product; of a sub-layer's last product.

    With the norm `before` the next sub-layer, x + Sublayer(x) in the place of x, and its norm only for the product.
    """
    for r in prange(product.shape[0]):
        row, state, step = product[r], states[r], steps[r]
        for i in range(row.shape[0]):
            state[i] += row[i] * step + bias[i]
        out = row if before else state
        _normalised(state, gain, shift, epsilon, out)
        next_steps[r] = _narrowed(out, whole[r])


@_pass("void(f4[:,::1], f4[::1])")
def log_probabilities(logits: Floats, steps: Floats) -> None:
    """log softmax of each row, in the place of the product that gives the logits."""
    for r in prange(logits.shape[0]):
        row, step = logits[r], steps[r]
        top = _greatest(row)
        total = _float(np.log(_exponentials(row, top, step)))
        for i in range(row.shape[0]):
            row[i] = (row[i] - top) * step - total


@_inlined
def _weighted(scores: Floats, count: int) -> None:
    """The softmax of the first `count` scores, in their place."""
    top = scores[0]
    for t in range(1, count):
        top = max(top, scores[t])
    for t in range(count):
        scores[t] = _exponential(scores[t] - top)
    inverse = _float(1) / _total(scores, count)
    for t in range(count):
        scores[t] *= inverse


@_inlined
def _scored(
    query: Floats, known: Floats, own: Slots, count: int, at: int, key: int, d_k: int, scale: np.float32, scores: Floats
) -> None:
    for t in range(count):
        scores[t] = _dot(query, at, known, _index(own[t]), key, d_k) * scale


@_inlined
def _gathered(
    weights: Floats, known: Floats, own: Slots, count: int, at: int, value: int, d_v: int, out: Floats
) -> None:
    for t in range(count):
        slot, weight = _index(own[t]), weights[t]
        for i in range(d_v):
            out[_index(at + i)] += weight * known[slot, _index(value + i)]


@_pass("void(f4[:,::1], f4[:,::1], i8, i4[:,::1], i8[::1], i8[::1], i8, i8, i8, f4, u1[:,::1], f4[::1])")
def attended(
    queries: Floats,
    known: Floats,
    first: int,
    slots: Slots,
    owners: Wholes,
    counts: Wholes,
    heads: int,
    d_k: int,
    d_v: int,
    scale: np.float32,
    whole: Bytes,
    steps: Floats,
) -> None:
    """Equation 1, head by head: what the queries at the beginning of each row gather, for the next product.

    Row r looks at `counts[owners[r]]` tokens, whose places among what is `known` are the first of `slots[owners[r]]`.
    There stand, from feature `first` on, every head's keys and then every head's values.
    """
    for r in prange(queries.shape[0]):
        scores, gathered = np.empty(slots.shape[1], _float), np.zeros(heads * d_v, _float)
        row, own, count = queries[r], slots[owners[r]], counts[owners[r]]
        for h in range(heads):
            at, key, value = h * d_k, first + h * d_k, first + heads * d_k + h * d_v
            # Vectors are laid out for a width that is known: twice as fast.
            if d_k == 64:
                _scored(row, known, own, count, at, key, 64, scale, scores)
            else:
                _scored(row, known, own, count, at, key, d_k, scale, scores)
            _weighted(scores, count)
            if d_v == 64:
                _gathered(scores, known, own, count, h * d_v, value, 64, gathered)
            else:
                _gathered(scores, known, own, count, h * d_v, value, d_v, gathered)
        steps[r] = _narrowed(gathered, whole[r])
