"""Line charts and histograms, with the positions of their axes and ticks; `templates/charts.html.jinja` draws them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 520, 246
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 40
Y_TITLE_WIDTH = 16
HISTOGRAM_HEIGHT = 150
GROUND = HISTOGRAM_HEIGHT - 22  # y of the lower edge of a histogram's bars


class Axis(NamedTuple):
    """An axis whose first and last ticks are round numbers.

    `begin` and `end` are the positions of these ticks in the picture.
    """

    ticks: tuple[float, ...]
    begin: float
    end: float

    def place(self, value: float) -> float:
        """Returns the position of a value in the picture."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return self.begin + (self.end - self.begin) * share


class ChartLine(NamedTuple):
    """A line of a chart, or a single point.

    Its CSS class determines the colour, so that a run can have the same colour in all charts.
    """

    css_class: str
    x: Sequence[float]
    y: Sequence[float]
    has_points: bool = False  # whether the points are drawn in addition to the line


class LineChart(NamedTuple):
    """A chart of lines that share their axes."""

    title: str
    x_title: str
    lines: Sequence[ChartLine]
    y_title: str = ""

    @property
    def x_axis(self) -> Axis:
        """Returns the horizontal axis, which runs from left to right."""
        left = LEFT + Y_TITLE_WIDTH if self.y_title else LEFT
        return Axis(round_ticks([value for line in self.lines for value in line.x]), left, WIDTH - RIGHT)

    @property
    def y_axis(self) -> Axis:
        """Returns the vertical axis, which runs from bottom to top."""
        return Axis(round_ticks([value for line in self.lines for value in line.y]), HEIGHT - BOTTOM, TOP)


class Histogram(NamedTuple):
    """A histogram with bins of equal width, in which the bars of several data series are drawn over each other."""

    title: str
    unit: str  # what is counted
    counts: dict[str, Sequence[int]]  # by the CSS class that chooses the colour
    ticks: tuple[str, str, str]  # left, middle and right
    names_colours: bool = False  # whether a legend explains the colours

    @property
    def highest(self) -> int:
        """Returns the count of the highest bar, which is at least 1."""
        return max(1, *(max(counts, default=0) for counts in self.counts.values()))


def round_ticks(values: Sequence[float]) -> tuple[float, ...]:
    """Returns round numbers that enclose the values, in equal steps of 1, 2 or 5 times a power of ten.

    There are four to seven of them, or two if all values are equal.
    """
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(number * step for number in range(first, max(last, first + 1) + 1))


def difference_bars(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns, for each pair, the second score minus the first, and the width of a bar for this difference.

    The widths are in per cent, and the largest difference has a width of 50.
    """
    differences = [second - first for first, second in pairs]
    largest = max(map(abs, differences), default=0.0) or 1.0
    return [(difference, 50 * abs(difference) / largest) for difference in differences]
