"""Scores of texts by the field's metrics, and tests of significance. This room needs no model and no torch."""

from transduce.measure.metrics import METRICS, metric_named
from transduce.measure.scores import Comparison, Difference, Score, compare, scores

__all__ = [
    "METRICS",
    "Comparison",
    "Difference",
    "Score",
    "compare",
    "metric_named",
    "scores",
]
