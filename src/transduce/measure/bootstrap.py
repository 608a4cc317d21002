"""Bootstrap resampling for metrics that are not computed by sacreBLEU.

The procedure is the same as in sacreBLEU, so that the p-values agree.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SEED = 12345
INTERVAL = (0.025, 0.975)  # the quantiles that bound a 95 % confidence interval
CHUNK = 1 << 20  # number of sentences that are drawn at a time, to limit the memory


def check_resamples(resamples: int | None) -> None:
    """Raises ValueError if there are too few resamples for a confidence interval; None is allowed."""
    if resamples is not None and resamples < 2:
        raise ValueError(f"bootstrap is {resamples}: an interval needs at least 2 resamples, usually 1,000")


def resample(sentences: int, resamples: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Yields bootstrap resamples in chunks.

    A chunk consists of the indices of its resamples, as a slice, and the indices of the sentences that were drawn for
    each of them [resamples sentences]. The seed is fixed, so that the resamples are the same for all outputs with the
    same number of sentences.
    """
    generator = np.random.default_rng(SEED)
    rows = max(1, CHUNK // sentences)
    for first in range(0, resamples, rows):
        last = min(first + rows, resamples)
        yield slice(first, last), generator.integers(sentences, size=(last - first, sentences))


def p_value(delta: float, resampled: NDArray[np.float64], sentences: int) -> float | None:
    """Returns the p-value of a difference, given the differences in the resamples.

    The p-value is 1 if the difference is zero. It is None if there is only one sentence, because all resamples are
    equal.
    """
    if sentences == 1:
        return None
    if not delta:
        return 1.0
    sizes = np.abs(resampled)
    return float((np.sum(sizes - sizes.mean() > abs(delta)) + 1) / (len(sizes) + 1))


def describe_p(p: float | None) -> str:
    """Returns a p-value as text."""
    return "no p-value of one sentence" if p is None else f"p = {p:.4f}"
