"""Line charts and attention as SVG and HTML, for a page without scripts."""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.pictures.attention import subword_labels
from transduce.pictures.html_parts import escape
from transduce.translation.results import Explanation

__all__ = ["ChartLine", "cross_attention", "legend", "line_chart"]

WIDTH, HEIGHT = 520, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 34
COLOURS = 6  # of lines in the style sheet


class ChartLine(NamedTuple):
    """A line of a chart. Its number chooses the colour, which is that of one run in all charts."""

    number: int
    x: Sequence[float]
    y: Sequence[float]


def line_chart(title: str, x_title: str, lines: Sequence[ChartLine]) -> str:
    """Returns a figure with the lines; the axes begin and end at round numbers."""
    x_ticks = _ticks([value for line in lines for value in line.x])
    y_ticks = _ticks([value for line in lines for value in line.y])
    shapes = [*_grid(x_ticks, y_ticks), *(_path(line, x_ticks, y_ticks) for line in lines)]
    middle = (LEFT + WIDTH - RIGHT) / 2
    shapes.append(f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{html.escape(x_title)}</text>')
    label = html.escape(title)
    picture = (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
    )
    return f"<figure><figcaption>{label}</figcaption>{picture}</figure>"


def legend(names: Sequence[str]) -> str:
    """Returns the names of the lines in their colours."""
    return " ".join(f'<b class="run{number % COLOURS}">{escape(name)}</b>' for number, name in enumerate(names))


def _ticks(values: Sequence[float]) -> list[float]:
    """Returns three to eight round numbers that enclose the values, with equal steps of 1, 2 or 5 by a power of ten."""
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _place(value: float, ticks: Sequence[float], begin: float, end: float) -> float:
    """Returns the place of a value on an axis."""
    return begin + (end - begin) * (value - ticks[0]) / (ticks[-1] - ticks[0])


def _x(value: float, ticks: Sequence[float]) -> float:
    return _place(value, ticks, LEFT, WIDTH - RIGHT)


def _y(value: float, ticks: Sequence[float]) -> float:
    return _place(value, ticks, HEIGHT - BOTTOM, TOP)


def _grid(x_ticks: Sequence[float], y_ticks: Sequence[float]) -> list[str]:
    """Returns the lines and numbers of both axes."""
    shapes = []
    for value in y_ticks:
        y = _y(value, y_ticks)
        shapes.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.10g}</text>')
    for value in x_ticks:
        x = _x(value, x_ticks)
        anchor = "end" if value == x_ticks[-1] else "middle"
        shapes.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="{anchor}">{value:,.10g}</text>')
    return shapes


def _path(line: ChartLine, x_ticks: Sequence[float], y_ticks: Sequence[float]) -> str:
    points = " ".join(f"{_x(x, x_ticks):.1f},{_y(y, y_ticks):.1f}" for x, y in zip(line.x, line.y, strict=True))
    colour = f"run{line.number % COLOURS}"
    if len(line.x) == 1:
        x, y = points.split(",")
        return f'<circle class="{colour}" cx="{x}" cy="{y}" r="3"/>'
    return f'<polyline class="{colour}" points="{points}"/>'


def cross_attention(explanation: Explanation) -> str:
    """Returns a table: for each subword of the target the attention to the source, as the mean of the last layer."""
    weights: NDArray[np.float32] = explanation.cross[-1].mean(0)
    source, target = subword_labels(explanation.source), subword_labels(explanation.target)
    head = "".join(f'<th scope="col"><bdi>{escape(label)}</bdi></th>' for label in source)
    rows = (
        f'<tr><th scope="row"><bdi>{escape(label)}</bdi></th>'
        + "".join(
            f'<td style="--weight:{weight:.2f}" title="{weight:.2f}"><span>{weight:.2f}</span></td>' for weight in row
        )
        + "</tr>"
        for label, row in zip(target, weights, strict=True)
    )
    return (
        '<div class="scroll"><table class="attention" lang="" translate="no">'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
