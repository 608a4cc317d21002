"""Text and plots of the results: Markdown tables, formats of cells, the paragraph on runs, panels of a plot."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from transduce.paper.provenance import describe_machine
from transduce.paper.trials import TrialResult
from transduce.runtime.extras import require_matplotlib

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # 97.5 % quantiles, 1 to 10 degrees


def student_quantile(degrees: int) -> float:
    """97.5 % quantile of Student's t; more than ten degrees of freedom count as ten."""
    return STUDENT[min(degrees, len(STUDENT)) - 1]


def confidence_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and half of its 95 % confidence interval; None for a single value."""
    if len(values) == 1:
        return values[0], None
    half = student_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


def render_page(template: str, **values: object) -> str:
    """Fills in the template of a page; paragraphs have one blank line between them."""
    return re.sub(r"\n{3,}", "\n\n", render(template, **values)).strip()


def render(template: str, **values: object) -> str:
    """Fills in a template of `templates`, without escaping the values."""
    return _environment.get_template(template).render(values)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def format_score(result: TrialResult) -> str:
    """The score with its confidence interval, as text."""
    return f"{result.score:.2f} [{result.low:.2f}, {result.high:.2f}]"


def format_optional(value: float | None, template: str) -> str:
    """Formats a value; None becomes an empty cell."""
    return "" if value is None else template.format(value)


def format_mean(values: Sequence[float]) -> str:
    """The mean as text and, if there are several values, half of its confidence interval."""
    return format_interval(*confidence_interval(values))


def format_interval(mean: float, half_width: float | None, *, signed: bool = False) -> str:
    """Formats `mean ± half_width`; with `signed`, a positive mean has a plus sign."""
    text = f"{mean:{'+' if signed else ''}.2f}"
    return text if half_width is None else f"{text} ± {half_width:.2f}"


def format_unfinished(results: Sequence[TrialResult]) -> str:
    """Steps, in parentheses, of the runs that did not do all steps of their budget; empty if all runs did."""
    unfinished = [result for result in results if not result.is_complete]
    steps = ", ".join(f"{result.step:,} of {result.steps:,} steps" for result in unfinished)
    return f" ({steps})" if unfinished else ""


def describe_trainings(results: Iterable[TrialResult]) -> str:
    """A paragraph with number, time, programs and machines of the runs; empty without results."""
    longest: dict[tuple[str, str], TrialResult] = {}  # a run measured at several budgets counts once
    for result in results:
        key = (result.trial, describe_device(result.environment))
        if key not in longest or longest[key].seconds < result.seconds:
            longest[key] = result
    if not longest:
        return ""
    makers = Counter(f"{result.program or 'an earlier version'}, {device}" for (_, device), result in longest.items())
    hours = sum(result.seconds for result in longest.values()) / 3600
    warning = "" if len(makers) == 1 else ", of several programs or machines"
    parts = sorted(f"{count} by {maker}" for maker, count in makers.items())
    return f"Trainings: {len(longest)}, {hours:.1f} hours together{warning}. {'; '.join(parts)}."


def describe_device(environment: Mapping[str, Any]) -> str:
    """Device of an environment, and its precision if it was recorded."""
    precision = f" in {environment['precision']}" if "precision" in environment else ""
    return f"{describe_machine(environment)}{precision}"


STYLES = ("o-", "s-", "^-", "v--", "D-", "P-", "X-")  # different markers: coinciding lines stay visible

COLUMNS = 4  # more would make the text too small to read on a page


@contextmanager
def panels(
    path: Path, titles: list[str], *, columns: int = COLUMNS, height: float = 3.6, share_y: bool = False
) -> Iterator[list[Any]]:
    """Yields axes, one for each title, and saves them to `path`; the same curves give a bit-identical file."""
    require_matplotlib()
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "font.size": 9, "axes.spines.top": False}):
        size = (4.2 * columns, height * rows)
        figure, cells = pyplot.subplots(
            rows, columns, figsize=size, layout="constrained", sharey=share_y, squeeze=False
        )
        axes = list(cells.flat)
        for spare in axes[len(titles) :]:
            spare.set_axis_off()
        for panel, title in zip(axes, titles, strict=False):
            panel.set_title(title, fontsize=10)
            panel.grid(alpha=0.3)
            panel.spines["right"].set_visible(False)
        yield axes[: len(titles)]
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)


_environment = Environment(
    loader=PackageLoader(__package__), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_environment.globals.update(
    table=markdown_table,
    describe_trainings=describe_trainings,
    format_score=format_score,
    format_mean=format_mean,
    format_interval=format_interval,
    format_unfinished=format_unfinished,
)
_environment.filters.update(
    count=lambda number: f"{number:,}",
    fixed=lambda number, digits=2: f"{number:.{digits}f}",
    signatures=lambda results: sorted({result.signature for result in results}),
)
