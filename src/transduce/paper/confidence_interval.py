"""The confidence interval of a mean of few values, by Student's t."""

import math
import statistics
from collections.abc import Sequence

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # 97.5 % quantiles, 1 to 10 degrees


def student_quantile(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t; more than ten degrees of freedom count as ten."""
    return STUDENT[min(degrees, len(STUDENT)) - 1]


def confidence_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns the mean, and half of its 95 % confidence interval; None for a single value."""
    if len(values) == 1:
        return values[0], None
    half = student_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half
