"""What the bootstrap tests of all measures share; sacreBLEU's, so that p-values agree with its own."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["SEED", "p_value"]

SEED = 12345


def p_value(delta: float, resampled: NDArray[np.float64]) -> float:
    """Returns the p-value of a difference from the differences of the resamples; 1 where there is no difference."""
    if not delta:
        return 1.0
    sizes = np.abs(resampled)
    return float((np.sum(sizes - sizes.mean() > abs(delta)) + 1) / (len(sizes) + 1))
