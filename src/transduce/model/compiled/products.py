"""Matrix products x Wᵀ + b for float32 rows x, computed in float32 or int8, with W stored in tiles.

A tile contains the weights of `COLUMNS` outputs, which fill two of the processor's vectors: 8 to 32 outputs, depending
on the processor. This example has tiles of 4 outputs instead. A matrix with six outputs, a to f, and three inputs is
stored as two tiles, in the order in which the multiplication reads it:

    W   a0 a1 a2      tile 0   a0 b0 c0 d0 | a1 b1 c1 d1 | a2 b2 c2 d2
        b0 b1 b2      tile 1   e0 f0  0  0 | e1 f1  0  0 | e2 f2  0  0
        …
        f0 f1 f2      x Wᵀ of tile 0 = x0·(a0 b0 c0 d0) + x1·(a1 b1 c1 d1) + x2·(a2 b2 c2 d2)

Each number of a row x is copied to all lanes of a vector, multiplied by the corresponding part of the tile, and added
to the sums of the outputs. Each lane holds the sum of one output, so no numbers have to be added across the lanes of a
vector. Up to `ROWS` rows are multiplied together: they share each load of weights, and their sums stay in registers. A
sum always adds its terms in the same order, whatever the number of rows, so no result depends on the batch.

In int8, four inputs share a 32-bit lane (a0 a1 a2 a3 b0 b1 b2 b3 …), because a single instruction multiplies the four
bytes of each lane by four other bytes and adds the products. One of its operands must be unsigned, so x is stored as
x + 128. This adds 128 · Σ w to each sum; to compensate, each sum begins at −128 · Σ w, which is stored in
`Product.start`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray
from torch import Tensor

from transduce.model.compiled.compilation import FIRST_INDEX, compiled
from transduce.model.compiled.instructions import COLUMNS, INSTRUCTIONS, ROWS, multiply_tile
from transduce.model.compiled.rows import quantise_row

LARGEST = 127  # the largest magnitude of an int8 weight or input
ZERO = 128  # the unsigned byte that represents 0
GROUP = 4  # bytes whose products one instruction adds to a sum

Matrix = tuple[Tensor, Tensor | None]  # weight [outputs inputs] and bias


class Product(NamedTuple):
    """The matrices with the same role in all layers, for example all output projections, stored in tiles.

    `weight` has the shape [layers tiles numbers], and each tile covers `COLUMNS` outputs. If the last tile is larger
    than needed, the result is 0 for the outputs that pad it. In int8, the sum of each output begins at `start` and is
    multiplied by `scales`. In both float32 and int8, `bias` is part of the result.
    """

    weight: NDArray[Any]
    start: NDArray[np.int32]
    scales: NDArray[np.float32]
    bias: NDArray[np.float32]
    inputs: int

    @property
    def width(self) -> int:
        """The number of outputs, including those that pad the last tile.

        An array that receives the result must be this wide.
        """
        return int(self.bias.shape[1])


def has_int8() -> bool:
    """Returns True if this processor has instructions for int8 multiplication."""
    return INSTRUCTIONS.add_in_pairs is not None


def pack(matrices: Sequence[Matrix], *, int8: bool) -> Product:
    """Stores the matrix and the bias of each layer in tiles, in float32 or in int8.

    In int8, the weights of each output share one scale.
    """
    number, group = (np.int8, GROUP) if int8 else (np.float32, 1)
    outputs, inputs = matrices[0][0].shape
    tiles, depth = -(-outputs // COLUMNS), -(-inputs // group)
    weight = np.empty((len(matrices), tiles, depth * COLUMNS * group), number)
    start = np.zeros((len(matrices), tiles * COLUMNS), np.int32)
    scales, bias = np.ones(start.shape, np.float32), np.zeros(start.shape, np.float32)
    for layer, (matrix, shift) in enumerate(matrices):
        numbers = matrix.detach().float().numpy()
        if int8:
            scales[layer, :outputs] = np.maximum(largest_weights(numbers), np.finfo(np.float32).tiny) / LARGEST
            numbers = np.rint(numbers / scales[layer, :outputs, None])
        padded = np.zeros((tiles * COLUMNS, depth * group), number)
        padded[:outputs, :inputs] = numbers
        if int8:
            start[layer] = -ZERO * padded.sum(1, dtype=np.int32)
        weight[layer] = padded.reshape(tiles, COLUMNS, depth, group).transpose(0, 2, 1, 3).reshape(tiles, -1)
        if shift is not None:
            bias[layer, :outputs] = shift.detach().float().numpy()
    return Product(weight, start, scales, bias, inputs)


def largest_weights(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns, for each row of a matrix, the weight whose int8 value is `LARGEST`.

    It is at least the largest absolute weight of the row. Some processors add the products of bytes in pairs, in 16
    bits. On these it is also at least the absolute sum of each pair of weights, so that no pair overflows: two
    quantised weights of the same sign then add up to 128 at most, and 255 · 128 is less than 2¹⁵.
    """
    largest: NDArray[np.float32] = np.abs(matrix).max(1)
    if not INSTRUCTIONS.multiply_add_bytes:
        pairs = np.pad(matrix, ((0, 0), (0, matrix.shape[1] % 2))).reshape(len(matrix), -1, 2)
        largest = np.maximum(largest, np.abs(pairs.sum(2)).max(1))
    return largest


def multiply(x: Any, count: int, product: Product, layer: int, out: Any) -> None:
    """Writes x Wᵀ + b for the first `count` rows of `x` to `out`; can be called only from compiled code.

    In int8, each row of x has its own scale, so that its result does not depend on the other rows.
    """
    raise NotImplementedError


@overload(multiply)
def _multiply(x: Any, count: int, product: Any, layer: int, out: Any) -> Any:
    number = product.types[0].dtype
    if isinstance(number, types.Float):
        return _multiply_floats

    def multiply_integers(x: Any, count: int, product: Any, layer: int, out: Any) -> None:
        depth, tiles, width = (product.inputs + GROUP - 1) // GROUP, product.weight.shape[1], product.bias.shape[1]
        rows, scales = np.empty((count, depth * GROUP), np.uint8), np.empty(count, np.float32)
        for row in range(count):
            for place in range(product.inputs, depth * GROUP):
                rows[row, place] = ZERO
            scales[row] = quantise_row(x[row], product.inputs, rows[row], ZERO)
        multiply_tiles(
            rows, FIRST_INDEX, rows.shape[1], count, scales,
            product.weight, layer * tiles * product.weight.shape[2], product.weight.shape[2], tiles, depth,
            product.start, product.scales, product.bias, layer * width, out, FIRST_INDEX, out.shape[1],
        )  # fmt: skip

    return multiply_integers


def _multiply_floats(x: Any, count: int, product: Any, layer: int, out: Any) -> None:
    tiles, width = product.weight.shape[1], product.bias.shape[1]
    multiply_tiles(
        x, FIRST_INDEX, x.shape[1], count, product.scales,
        product.weight, layer * tiles * product.weight.shape[2], product.weight.shape[2], tiles, product.inputs,
        product.start, product.scales, product.bias, layer * width, out, FIRST_INDEX, out.shape[1],
    )  # fmt: skip


@compiled
def multiply_tiles(
    x: Any, x_at: int, stride: int, rows: int, row_scales: Any,
    weight: Any, weight_at: int, tile_size: int, tiles: int, depth: int,
    start: Any, scales: Any, bias: Any, first: int, out: Any, out_at: int, out_stride: int,
) -> None:  # fmt: skip
    """Multiplies `rows` rows by `tiles` adjacent tiles; see `multiply_tile` for the other arguments.

    A tile consists of `tile_size` numbers. `first` is the index of the first tile's first output in `start`, `scales`
    and `bias`. Each tile stays in the nearest cache while it is multiplied by all rows. Callers should pass a few dozen
    rows at most, so that the rows stay in the next cache.
    """
    for tile in range(tiles):
        column = tile * COLUMNS
        for at in range(0, rows, ROWS):
            multiply_tile(
                x, x_at + at * stride, stride, min(ROWS, rows - at), row_scales[at:],
                weight, weight_at + tile * tile_size, depth, start, scales, bias, first + column,
                out, out_at + at * out_stride + column, out_stride,
            )  # fmt: skip
