"""Matrices in int8 for other engines, in a range that every processor multiplies exactly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["int8_rows"]

# x86 processors without VNNI add two products of a weight and an unsigned byte in 16 bits: 2 · 255 · 64 is below 2¹⁵.
LARGEST = 64


def int8_rows(matrix: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Returns a matrix [outputs inputs] as integers from −64 to 64, and the scale of each output.

    The matrix is the integers times the scales.
    """
    scales = np.maximum(np.abs(matrix).max(1) / LARGEST, np.finfo(np.float32).tiny)
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales.astype(np.float32)
