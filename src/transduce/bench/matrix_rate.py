"""The rate of plain matrix products, by which the speed of a model is judged: its share of the peak."""

import torch

from transduce.bench.measurement import median_seconds

__all__ = ["matrix_rate"]

MATRIX_SIZES = {"cpu": 2048, "cuda": 8192}  # on a GPU so large that launching takes no time beside the product


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Returns the operations a second of a product of two square matrices, the median of ten products."""
    size = MATRIX_SIZES[device.type]
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / median_seconds(lambda: left @ right, device, runs=10)
