"""Formats results as text and plots: Markdown tables, table cells, the paragraph on runs, and panels of plots."""

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
    """Returns the 97.5 % quantile of Student's t-distribution; more than ten degrees of freedom are treated as ten."""
    return STUDENT[min(degrees, len(STUDENT)) - 1]


def confidence_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns the mean and half the width of its 95 % confidence interval, which is None for a single value."""
    if len(values) == 1:
        return values[0], None
    half = student_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


def render_page(template: str, **values: object) -> str:
    """Renders the template of a page, with a single blank line between paragraphs."""
    return re.sub(r"\n{3,}", "\n\n", render(template, **values)).strip()


def render(template: str, **values: object) -> str:
    """Renders a template from the folder `templates`, without escaping the values."""
    return _environment.get_template(template).render(values)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def format_score(result: TrialResult) -> str:
    """Formats a score with its confidence interval."""
    return f"{result.score:.2f} [{result.low:.2f}, {result.high:.2f}]"


def format_optional(value: float | None, template: str) -> str:
    """Formats a value with a template; None becomes an empty cell."""
    return "" if value is None else template.format(value)


def format_mean(values: Sequence[float]) -> str:
    """Formats the mean, followed by half the width of its confidence interval if there are several values."""
    return format_interval(*confidence_interval(values))


def format_interval(mean: float, half_width: float | None, *, signed: bool = False) -> str:
    """Formats `mean ± half_width`, or only the mean if `half_width` is None.

    If `signed`, a positive mean is formatted with a plus sign.
    """
    text = f"{mean:{'+' if signed else ''}.2f}"
    return text if half_width is None else f"{text} ± {half_width:.2f}"


def format_unfinished(results: Sequence[TrialResult]) -> str:
    """Returns, in parentheses, the step counts of the runs that stopped before using up their step budget.

    If there are no such runs, returns an empty string.
    """
    unfinished = [result for result in results if not result.is_complete]
    steps = ", ".join(f"{result.step:,} of {result.steps:,} steps" for result in unfinished)
    return f" ({steps})" if unfinished else ""


def describe_trainings(results: Iterable[TrialResult]) -> str:
    """Describes the runs in a paragraph: their number, their total time, and their programs and machines.

    Returns an empty string if there are no results.
    """
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
    """Describes the device of an environment, with its precision if it was recorded."""
    precision = f" in {environment['precision']}" if "precision" in environment else ""
    return f"{describe_machine(environment)}{precision}"


STYLES = ("o-", "s-", "^-", "v--", "D-", "P-", "X-")  # different markers, so that coinciding lines remain visible

COLUMNS = 4  # with more columns, the text on a page would be too small to read


@contextmanager
def panels(
    path: Path,
    titles: list[str],
    *,
    columns: int = COLUMNS,
    width: float = 4.2,
    height: float = 3.6,
    share_y: bool = False,
) -> Iterator[list[Any]]:
    """Yields one set of axes per title, and saves the figure to `path` when the context ends.

    The output is deterministic: the same curves give a bit-identical file.
    """
    require_matplotlib()
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "font.size": 9, "axes.spines.top": False}):
        size = (width * columns, height * rows)
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
