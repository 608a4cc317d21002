"""Calibration of a model's confidence in its own output.

A calibration maps the model's score for an output to the quality that outputs with similar scores had.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from transduce.settings import Spec

BINS = 10
HISTOGRAM_BARS = 20


class ReliabilityBin(Spec):
    """A bin of translations with similar predictions: their number, mean prediction and mean quality."""

    sentences: int = Field(ge=1)
    prediction: float
    quality: float


class ReliabilityCurve(Spec):
    """Predicted and actual qualities, both from 0 to 1, where each bin holds a tenth of the sorted predictions."""

    error: float  # the calibration error
    bins: tuple[ReliabilityBin, ...]
    histogram: tuple[int, ...]  # number of predictions in each bar; the bars have equal width and span 0 to 1


def fit_isotonic(scores: Sequence[float], qualities: Sequence[float]) -> tuple[list[float], list[float]]:
    """Fits an isotonic regression and returns the scores and qualities at its knots.

    Neighbouring points are pooled into their mean as long as their quality does not rise with the score. Points with
    equal scores are pooled as well. The quality between two knots is meant to be interpolated.
    """
    order = np.lexsort(
        (-np.asarray(qualities), np.asarray(scores))
    )  # for equal scores the best quality comes first, so that they are pooled
    blocks: list[list[float]] = []  # sum of scores, sum of qualities, number
    for score, quality in zip(np.asarray(scores)[order], np.asarray(qualities)[order], strict=True):
        blocks.append([float(score), float(quality), 1.0])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]:
            last = blocks.pop()
            blocks[-1] = [left + right for left, right in zip(blocks[-1], last, strict=True)]
    return [score / size for score, _, size in blocks], [quality / size for _, quality, size in blocks]


def calibration_error(predictions: Sequence[float], qualities: Sequence[float]) -> float:
    """Computes the expected calibration error, the mean of |mean prediction − mean quality| over bins of equal size.

    Each bin holds a tenth of the sorted predictions, whereas Naeini et al. (2015) use bins of equal width.
    """
    gaps = [abs(float(left.mean() - right.mean())) * len(left) for left, right in _bins(predictions, qualities)]
    return sum(gaps) / len(predictions)


def reliability_curve(predictions: Sequence[float], qualities: Sequence[float]) -> ReliabilityCurve:
    """Computes the reliability curve of predictions against the actual qualities."""
    histogram, _ = np.histogram(np.clip(predictions, 0, 1), HISTOGRAM_BARS, (0.0, 1.0))
    return ReliabilityCurve(
        error=calibration_error(predictions, qualities),
        bins=tuple(
            ReliabilityBin(sentences=len(left), prediction=float(left.mean()), quality=float(right.mean()))
            for left, right in _bins(predictions, qualities)
        ),
        histogram=tuple(histogram.tolist()),
    )


def _bins(
    predictions: Sequence[float], qualities: Sequence[float]
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Sorts the predictions and divides them, with their qualities, into up to ten bins of equal size."""
    order = np.argsort(predictions, kind="stable")
    sides: tuple[NDArray[np.float64], ...] = np.asarray(predictions)[order], np.asarray(qualities)[order]
    return list(zip(*(np.array_split(side, min(BINS, len(order))) for side in sides), strict=True))
