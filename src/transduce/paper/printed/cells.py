"""What the tables have in common: cells, and how they make a table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from transduce.paper.confidence_interval import confidence_interval
from transduce.paper.provenance import on
from transduce.paper.trials import TrialResult

__all__ = [
    "bleu",
    "or_nothing",
    "steps",
    "table",
    "trained_on",
    "trainings",
    "with_spread",
    "within",
]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def bleu(found: TrialResult) -> str:
    """BLEU with its interval."""
    return f"{found.bleu:.2f} [{found.low:.2f}, {found.high:.2f}]"


def steps(found: Sequence[TrialResult]) -> str:
    """How far a row was trained where that was not as far as it should be."""
    short = [each for each in found if not each.reached]
    return f" ({', '.join(f'{each.step:,} of {each.steps:,} steps' for each in short)})" if short else ""


def trainings(found: Iterable[TrialResult]) -> Iterator[str]:
    """How many trainings there were, how long they took, and what made them."""
    last: dict[tuple[str, str], TrialResult] = {}  # of a training that was measured at several budgets
    for each in found:
        place = (each.trial, trained_on(each.environment))
        if place not in last or last[place].seconds < each.seconds:
            last[place] = each
    if not last:
        return
    made = Counter(f"{each.program or 'an earlier version'}, {machine}" for (_, machine), each in last.items())
    parts = (f"{count} by {maker}" for maker, count in made.items())
    hours = sum(each.seconds for each in last.values()) / 3600
    alike = "" if len(made) == 1 else ", not all made alike"
    yield f"Trainings: {len(last)}, {hours:.1f} hours together{alike}. {'; '.join(sorted(parts))}."


def trained_on(environment: Mapping[str, Any]) -> str:
    """The device, for a processor with its threads, and the precision of products, as far as they were written down."""
    precision = f" in {environment['precision']}" if "precision" in environment else ""
    return f"{on(environment)}{precision}"


def or_nothing(value: float | None, shape: str) -> str:
    """A cell, empty where there is no value."""
    return "" if value is None else shape.format(value)


def with_spread(values: Sequence[float]) -> str:
    """Mean, and half of its interval where there are several."""
    return within(*confidence_interval(values))


def within(mean: float, within: float | None, *, signed: bool = False) -> str:
    """A value and its bounds; of a difference with its sign, whichever it is."""
    shown = f"{mean:{'+' if signed else ''}.2f}"
    return shown if within is None else f"{shown} ± {within:.2f}"
