"""Attention (equation 1) in compiled code, over source tokens in tiles and over decoded tokens in slots.

All hypotheses of a sentence attend to the same keys and values of the source. Attention over the source therefore
consists of two multiplications by matrices in tiles (see `products`):

    scores [rows tokens]   = queries · Kᵀ   a column of a tile is a token; the sum is over d_k
    mixed  [rows features] = weights · V    a column of a tile is a feature; the sum is over the tokens

Decoded tokens, in contrast, differ between hypotheses. Each row has a table of the slots of its tokens, and attention
reads their keys and values one token at a time.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.model.compiled.compilation import FIRST_INDEX, compiled, summed
from transduce.model.compiled.instructions import COLUMNS, ROWS, multiply_tile
from transduce.model.compiled.rows import Floats, softmax
from transduce.model.compiled.weights import Heads

Slots = NDArray[np.int32]


@compiled
def store_keys(rows: Floats, at: int, count: int, d_k: int, keys: Floats) -> None:
    """Stores the keys of `count` rows in tiles [heads tiles d_k·COLUMNS], each of which covers `COLUMNS` tokens.

    In each row, the keys begin at feature `at`.
    """
    for head in range(keys.shape[0]):
        for t in range(keys.shape[1] * COLUMNS):
            for i in range(d_k):
                key = rows[t, at + head * d_k + i] if t < count else np.float32(0)
                keys[head, t // COLUMNS, i * COLUMNS + t % COLUMNS] = key


@compiled
def store_values(rows: Floats, at: int, count: int, d_v: int, values: Floats) -> None:
    """Stores the values of `count` rows in tiles [heads tiles source·COLUMNS], each of which covers `COLUMNS` features.

    In each row, the values begin at feature `at`.
    """
    for head in range(values.shape[0]):
        for t in range(count):
            for i in range(values.shape[1] * COLUMNS):
                value = rows[t, at + head * d_v + i] if i < d_v else np.float32(0)
                values[head, i // COLUMNS, t * COLUMNS + i % COLUMNS] = value


class Scratch(NamedTuple):
    """Buffers for `attend`.

    `scores` and `mixed` contain the scores and the weighted sums of the values for up to `ROWS` rows. `zeros` is as
    wide as a tile.
    """

    scores: Floats
    mixed: Floats
    zeros: Floats


@compiled
def scratch_for(keys: Floats, values: Floats) -> Scratch:
    """Allocates the buffers for keys and values of shape [heads tiles numbers]."""
    scores = np.empty((ROWS, keys.shape[1] * COLUMNS), np.float32)
    mixed = np.empty((ROWS, values.shape[1] * COLUMNS), np.float32)
    return Scratch(scores, mixed, np.zeros(COLUMNS, np.float32))


@compiled
def attend(
    queries: Floats, first: int, count: int, heads: Heads, keys: Floats, values: Floats, length: int, scratch: Scratch,
    out: Floats,
) -> None:  # fmt: skip
    """Computes equation 1 for `count` rows, beginning with row `first`, which attend to the same `length` tokens.

    Each row of `queries` begins with the queries of all heads. The result is written to the same rows of `out`.
    """
    scores, mixed, zeros = scratch
    for at in range(first, first + count, ROWS):
        rows = min(ROWS, first + count - at)
        for head in range(heads.heads):
            for tile in range((length + COLUMNS - 1) // COLUMNS):
                multiply_tile(
                    queries, at * queries.shape[1] + head * heads.d_k, queries.shape[1], rows, zeros,
                    keys, (head * keys.shape[1] + tile) * keys.shape[2], heads.d_k, zeros, zeros, zeros, FIRST_INDEX,
                    scores, tile * COLUMNS, scores.shape[1],
                )  # fmt: skip
            for row in range(rows):
                softmax(scores[row], length, heads.scale)
            for tile in range(values.shape[1]):
                multiply_tile(
                    scores, FIRST_INDEX, scores.shape[1], rows, zeros,
                    values, (head * values.shape[1] + tile) * values.shape[2], length, zeros, zeros, zeros, FIRST_INDEX,
                    mixed, tile * COLUMNS, mixed.shape[1],
                )  # fmt: skip
            for row in range(rows):
                for i in range(heads.d_v):
                    out[at + row, head * heads.d_v + i] = mixed[row, i]


@summed
def _dot(query: Floats, keys: Floats, slot: np.uint64, at: int) -> np.float32:
    total = np.float32(0)
    for i in range(query.shape[0]):
        total += query[i] * keys[slot, np.uint64(at + i)]
    return total


@compiled
def attend_to_slots(query: Floats, heads: Heads, key_values: Floats, slots: Slots, scores: Floats, out: Floats) -> None:
    """Computes equation 1 for all heads of one row, which attends to the tokens in `slots`.

    Each slot contains the keys of all heads, followed by the values of all heads. The result is written to `out`.
    """
    length = slots.shape[0]
    for i in range(heads.heads * heads.d_v):
        out[i] = 0
    for head in range(heads.heads):
        at, value_at = head * heads.d_k, heads.heads * heads.d_k + head * heads.d_v
        part = query[at : at + heads.d_k]
        for t in range(length):
            scores[t] = _dot(part, key_values, np.uint64(slots[t]), at)
        softmax(scores, length, heads.scale)
        summed_values = out[head * heads.d_v : (head + 1) * heads.d_v]
        for t in range(length):
            weight, slot = scores[t], np.uint64(slots[t])
            for i in range(heads.d_v):
                summed_values[i] += weight * key_values[slot, np.uint64(value_at + i)]
