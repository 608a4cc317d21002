"""Isotonic regression and the calibration error."""

import itertools
import random

import numpy as np
import pytest

from transduce.measure.calibration import calibration_error, fit_isotonic


def best_rising(qualities: list[float], grid: list[float]) -> float:
    """The least sum of squares of any rising sequence of grid values, by trying all."""
    rising = itertools.combinations_with_replacement(sorted(grid), len(qualities))
    return min(sum((a - b) ** 2 for a, b in zip(one, qualities, strict=True)) for one in rising)


def test_the_fit_rises_and_no_rising_line_is_nearer() -> None:
    drawn = random.Random(3)
    for _ in range(20):
        scores = drawn.sample(range(100), 6)
        qualities = [drawn.randint(0, 4) / 4 for _ in scores]
        knots = fit_isotonic([float(score) for score in scores], qualities)
        assert list(knots[0]) == sorted(knots[0])
        assert list(knots[1]) == sorted(knots[1])
        ordered = [quality for _, quality in sorted(zip(scores, qualities, strict=True))]
        means = {sum(part) / len(part) for n in range(6) for m in range(n + 1, 7) if (part := ordered[n:m])}
        # The value of the fit at a score is that of its block: of the knots, the nearest block that contains it.
        fitted = _blocks(scores, qualities)
        assert sum((a - b) ** 2 for a, b in zip(fitted, ordered, strict=True)) == pytest.approx(
            best_rising(ordered, list(means))
        )
        assert sorted(set(np.round(fitted, 9))) == sorted(set(np.round(knots[1], 9)))


def _blocks(scores: list[int], qualities: list[float]) -> list[float]:
    """The isotonic fit at each score by the formula of minima of maxima of means."""
    ordered = [quality for _, quality in sorted(zip(scores, qualities, strict=True))]
    size = len(ordered)
    mean = {(n, m): sum(ordered[n : m + 1]) / (m + 1 - n) for n in range(size) for m in range(n, size)}
    return [max(min(mean[n, m] for m in range(place, size)) for n in range(place + 1)) for place in range(size)]


def test_the_error_is_the_mean_gap_of_ten_bins() -> None:
    predictions = [place / 100 for place in range(100)]
    qualities = [prediction + (0.2 if prediction < 0.5 else -0.1) for prediction in predictions]
    assert calibration_error(predictions, qualities) == pytest.approx(0.15)
    assert calibration_error(predictions[::-1], predictions[::-1]) == 0
    assert calibration_error([0.25, 0.75], [0.75, 0.25]) == pytest.approx(0.5)
