"""What the tables have in common: cells, and how they make a table."""

from collections.abc import Sequence

from transduce.paper.trials import Found, spread

__all__ = ["bleu", "or_nothing", "table", "with_spread", "within"]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def bleu(found: Found) -> str:
    """BLEU with its interval."""
    return f"{found.bleu:.2f} [{found.low:.2f}, {found.high:.2f}]"


def or_nothing(value: float | None, shape: str) -> str:
    """A cell, empty where there is no value."""
    return "" if value is None else shape.format(value)


def with_spread(values: Sequence[float]) -> str:
    """Mean, and half of its interval where there are several."""
    return within(*spread(values))


def within(mean: float, within: float | None) -> str:
    """A value and its bounds."""
    return f"{mean:.2f}" if within is None else f"{mean:.2f} ± {within:.2f}"
