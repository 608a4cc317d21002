"""How good a text is, by the field's metrics: never a model in here, only texts and numbers."""

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
