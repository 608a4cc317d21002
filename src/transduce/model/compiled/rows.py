"""Operations on a single row of numbers: quantisation, normalisation, softmax, and the choice of the best tokens."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.model.compiled.compilation import compiled, inlined, summed

Floats = NDArray[np.float32]

_float, _int = np.float32, np.int32

MIN_EXPONENT = _float(-60.0)  # e^−60 is negligible next to 1, but not a denormal number, which would be slow
MIN_SCALE = _float(1.2e-38)
LOWEST = _float(-3e38)  # less than every logit, and finite
FOLDS = 32  # number of equal parts into which `best_of_row` divides a row of logits


@inlined
def exponential(x: np.float32) -> np.float32:
    """Computes e^x for x ≤ 0, or e^`MIN_EXPONENT` if x is below `MIN_EXPONENT`.

    The result is 2^n times a polynomial in f, where x · log2(e) = n + f and n is an integer. Its relative error is at
    most 7e-7 for x ≥ −10, and at most 4e-6 for smaller x, where e^x contributes little to the sum of a softmax.
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


@summed
def _sum(row: Floats, count: int) -> np.float32:
    total = _float(0)
    for i in range(count):
        total += row[i]
    return total


@summed
def _sum_of_squares(row: Floats, mean: np.float32) -> np.float32:
    total = _float(0)
    for i in range(row.shape[0]):
        total += (row[i] - mean) * (row[i] - mean)
    return total


@summed
def _sum_of_exponentials(row: Floats, top: np.float32) -> np.float32:
    total = _float(0)
    for i in range(row.shape[0]):
        total += exponential(row[i] - top)
    return total


@inlined
def _ordered(bits: np.int32) -> np.int32:
    """Maps the bits of a float to an integer that sorts like the float; applied twice, it returns the original bits."""
    return _int(bits ^ ((bits >> 31) & 0x7FFFFFFF))


@compiled
def maximum(row: Floats) -> np.float32:
    """Returns the largest number of a row.

    The numbers are compared as integers, because comparisons of floats, which could be NaN, are not vectorised.
    """
    bits, top = row.view(_int), _int(-0x7FFFFFFF)
    for i in range(row.shape[0]):
        top = max(top, _ordered(bits[i]))
    top_bits = _int(_ordered(top))
    return top_bits.view(_float)


@compiled
def quantise_row(row: Floats, count: int, quantised: Any, zero: int) -> np.float32:
    """Quantises `count` numbers of a row to integers from −127 to 127, and returns their scale.

    Writes each integer plus `zero` to `quantised`.
    """
    bits, top = row.view(_int), _int(0)
    for i in range(count):
        top = max(top, _int(bits[i] & 0x7FFFFFFF))
    top_bits = _int(top)
    scale = max(top_bits.view(_float) / _float(127), MIN_SCALE)
    inverse = _float(1) / scale
    for i in range(count):
        quantised[i] = _int(np.rint(row[i] * inverse)) + _int(zero)
    return scale


@compiled
def normalise(row: Floats, gain: Floats, shift: Floats, epsilon: np.float32, out: Floats) -> None:
    """Writes LayerNorm(row) to `out`, which may be the row itself."""
    mean = _sum(row, row.shape[0]) / _float(row.shape[0])
    inverse = _float(1) / np.sqrt(_sum_of_squares(row, mean) / _float(row.shape[0]) + epsilon)
    for i in range(row.shape[0]):
        out[i] = (row[i] - mean) * inverse * gain[i] + shift[i]


@compiled
def softmax(scores: Floats, count: int, scale: np.float32) -> None:
    """Multiplies the first `count` scores by `scale`, and replaces them with their softmax.

    `scale` must be positive.
    """
    top = scores[0]
    for t in range(1, count):
        top = max(top, scores[t])
    for t in range(count):
        scores[t] = exponential((scores[t] - top) * scale)
    inverse = _float(1) / _sum(scores, count)
    for t in range(count):
        scores[t] *= inverse


@compiled
def log_softmax(logits: Floats, out: Floats) -> None:
    """Writes the log-softmax of a row of logits to `out`."""
    top = maximum(logits)
    shift = top + _float(np.log(_sum_of_exponentials(logits, top)))
    for i in range(logits.shape[0]):
        out[i] = logits[i] - shift


@compiled
def best_of_row(logits: Floats, banned: Any, maxima: Floats, best: Floats, tokens: Any) -> None:
    """Writes the most probable tokens that are not banned, best first, and their log-probabilities.

    The number of tokens is the length of `best`, and at least this many tokens must not be banned. `logits` is
    overwritten. The row of logits is divided into folds as long as the scratch row `maxima`, into which the maximum
    over all folds is written for each position. An example with two folds of four tokens:

        logits   3 1 4 1 | 5 9 2 6
        maxima   5 9 4 6              the best is 9 at position 1: token 1 or 1 + 4; it is 5, because logits[5] is 9
                 5 1 4 6              without token 5: the next best is 6 at position 3, token 7

    The whole row is read only to compute the maxima and the normaliser of the softmax. Each token costs only a pass
    over `maxima`, which is 1/32 as long as the row.
    """
    _maxima_of_folds(logits, maxima)
    top = maximum(maxima)
    shift = top + _float(np.log(_sum_of_exponentials(logits, top)))
    for token in banned:
        _remove(logits, maxima, token)
    for number in range(best.shape[0]):
        value = maximum(maxima)
        token, width = 0, maxima.shape[0]
        # The bounds stop the loops if a model has diverged and its logits are NaN.
        while token + 1 < width and maxima[token] != value:
            token += 1
        while token + width < logits.shape[0] and logits[token] != value:
            token += width
        best[number], tokens[number] = value - shift, token
        _remove(logits, maxima, token)


@compiled
def _maxima_of_folds(row: Floats, maxima: Floats) -> None:
    """Writes the maximum over all folds of a row, for each position in a fold, to `maxima`.

    Every fold is as long as `maxima`, except the last one, which may be shorter.
    """
    width, tops, bits = maxima.shape[0], maxima.view(_int), row.view(_int)
    for place in range(width):
        tops[place] = _int(-0x7FFFFFFF)
    for first in range(0, row.shape[0], width):
        fold = bits[first : first + width]
        for place in range(fold.shape[0]):
            tops[place] = max(tops[place], _ordered(fold[place]))  # as integers, as in `maximum`
    for place in range(width):
        tops[place] = _ordered(tops[place])


@compiled
def _remove(row: Floats, maxima: Floats, token: int) -> None:
    """Sets a token's logit to `LOWEST`, and updates the maximum over all folds at its position."""
    row[token] = LOWEST
    place, top = token % maxima.shape[0], LOWEST
    for i in range(place, row.shape[0], maxima.shape[0]):
        top = max(top, row[i])
    maxima[place] = top
