"""Markdown tables, the formats of their cells, and the paragraph on the trainings of a table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from transduce.paper.confidence_interval import confidence_interval
from transduce.paper.provenance import describe_machine
from transduce.paper.trials import TrialResult


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def format_score(result: TrialResult) -> str:
    """Returns the score with its confidence interval."""
    return f"{result.score:.2f} [{result.low:.2f}, {result.high:.2f}]"


def format_optional(value: float | None, template: str) -> str:
    """Returns the formatted value, or an empty cell for None."""
    return "" if value is None else template.format(value)


def format_mean(values: Sequence[float]) -> str:
    """Returns the mean, and half of its confidence interval where there are several values."""
    return format_interval(*confidence_interval(values))


def format_interval(mean: float, half_width: float | None, *, signed: bool = False) -> str:
    """Returns `mean ± half_width`; with `signed`, a positive mean has a plus sign."""
    text = f"{mean:{'+' if signed else ''}.2f}"
    return text if half_width is None else f"{text} ± {half_width:.2f}"


def format_unfinished(results: Sequence[TrialResult]) -> str:
    """Returns in parentheses the steps of the trainings that did not do all steps of their budget."""
    unfinished = [result for result in results if not result.is_complete]
    steps = ", ".join(f"{result.step:,} of {result.steps:,} steps" for result in unfinished)
    return f" ({steps})" if unfinished else ""


def describe_trainings(results: Iterable[TrialResult]) -> Iterator[str]:
    """Yields a paragraph with number, time, programs and machines of the trainings; nothing without results."""
    longest: dict[tuple[str, str], TrialResult] = {}  # a training measured at several budgets counts once
    for result in results:
        key = (result.trial, describe_device(result.environment))
        if key not in longest or longest[key].seconds < result.seconds:
            longest[key] = result
    if not longest:
        return
    makers = Counter(f"{result.program or 'an earlier version'}, {device}" for (_, device), result in longest.items())
    hours = sum(result.seconds for result in longest.values()) / 3600
    warning = "" if len(makers) == 1 else ", of several programs or machines"
    parts = sorted(f"{count} by {maker}" for maker, count in makers.items())
    yield f"Trainings: {len(longest)}, {hours:.1f} hours together{warning}. {'; '.join(parts)}."


def describe_device(environment: Mapping[str, Any]) -> str:
    """Returns the device of an environment and its precision, if that was recorded."""
    precision = f" in {environment['precision']}" if "precision" in environment else ""
    return f"{describe_machine(environment)}{precision}"
