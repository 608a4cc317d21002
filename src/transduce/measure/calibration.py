"""Calibration: from a model's score of its own output to the quality that such outputs had."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["calibration_error", "fit_isotonic"]

BINS = 10


def fit_isotonic(scores: Sequence[float], qualities: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns knots (scores, qualities) of the rising line that fits best (isotonic regression by pooling).

    Neighbours that fall are pooled to their mean until none fall. Between knots a quality is interpolated.
    """
    order = np.argsort(scores, kind="stable")
    blocks: list[list[float]] = []  # sum of scores, sum of qualities, number
    for score, quality in zip(np.asarray(scores)[order], np.asarray(qualities)[order], strict=True):
        blocks.append([float(score), float(quality), 1.0])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]:
            last = blocks.pop()
            blocks[-1] = [left + right for left, right in zip(blocks[-1], last, strict=True)]
    return [score / size for score, _, size in blocks], [quality / size for _, quality, size in blocks]


def calibration_error(predictions: Sequence[float], qualities: Sequence[float]) -> float:
    """Returns the expected calibration error: |mean prediction − mean quality| in bins of equal size, its mean.

    The bins are tenths of the predictions in their order (Naeini et al. 2015 take bins of equal width).
    """
    order = np.argsort(predictions, kind="stable")
    sides: tuple[NDArray[np.float64], ...] = np.asarray(predictions)[order], np.asarray(qualities)[order]
    bins = zip(*(np.array_split(side, min(BINS, len(order))) for side in sides), strict=True)
    return sum(abs(float(left.mean() - right.mean())) * len(left) for left, right in bins) / len(order)
