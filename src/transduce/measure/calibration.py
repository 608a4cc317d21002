"""Calibration: maps a model's score for its own output to the quality that outputs with similar scores had."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from transduce.settings import Spec

BINS = 10
HISTOGRAM_BARS = 20


class ReliabilityBin(Spec):
    """Translations with neighbouring predictions: their number, mean prediction and mean quality."""

    sentences: int = Field(ge=1)
    prediction: float
    quality: float


class ReliabilityCurve(Spec):
    """Predictions against qualities, both from 0 to 1, in bins that are tenths of the sorted predictions."""

    error: float  # the calibration error
    bins: tuple[ReliabilityBin, ...]
    histogram: tuple[int, ...]  # predictions in bars of equal width from 0 to 1


def fit_isotonic(scores: Sequence[float], qualities: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns the knots (scores, qualities) of the rising line that fits best (isotonic regression by pooling).

    Falling neighbours, and equal scores, are pooled to their mean until the line only rises. Between knots a quality is
    interpolated.
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
    """The expected calibration error: the mean over bins of equal size of |mean prediction − mean quality|.

    The bins are tenths of the sorted predictions (Naeini et al. 2015 take bins of equal width).
    """
    gaps = [abs(float(left.mean() - right.mean())) * len(left) for left, right in _bins(predictions, qualities)]
    return sum(gaps) / len(predictions)


def reliability_curve(predictions: Sequence[float], qualities: Sequence[float]) -> ReliabilityCurve:
    """The curve of predictions, from 0 to 1, against the actual qualities."""
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
    """Predictions and their qualities in bins of equal size, tenths of the sorted predictions."""
    order = np.argsort(predictions, kind="stable")
    sides: tuple[NDArray[np.float64], ...] = np.asarray(predictions)[order], np.asarray(qualities)[order]
    return list(zip(*(np.array_split(side, min(BINS, len(order))) for side in sides), strict=True))
