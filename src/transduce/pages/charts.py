"""Line charts and histograms: positions of their lines, bars and ticks; `templates/charts.html.jinja` draws them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 520, 246
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 40
Y_TITLE_WIDTH = 16
HISTOGRAM_HEIGHT = 150
GROUND = HISTOGRAM_HEIGHT - 22  # y of the bottom of a histogram's bars


class Axis(NamedTuple):
    """An axis that begins and ends at a round number.

    `begin` and `end` are the positions of its ends in the picture.
    """

    ticks: tuple[float, ...]
    begin: float
    end: float

    def place(self, value: float) -> float:
        """Position of a value in the picture."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return self.begin + (self.end - self.begin) * share


class ChartLine(NamedTuple):
    """A line of a chart, or a point.

    Its class chooses the colour, for example the same colour for a run in all charts.
    """

    css_class: str
    x: Sequence[float]
    y: Sequence[float]
    has_points: bool = False  # whether its points are drawn as well


class LineChart(NamedTuple):
    """Lines on common axes."""

    title: str
    x_title: str
    lines: Sequence[ChartLine]
    y_title: str = ""

    @property
    def x_axis(self) -> Axis:
        """The horizontal axis, from left to right."""
        left = LEFT + Y_TITLE_WIDTH if self.y_title else LEFT
        return Axis(round_ticks([value for line in self.lines for value in line.x]), left, WIDTH - RIGHT)

    @property
    def y_axis(self) -> Axis:
        """The vertical axis, from bottom to top."""
        return Axis(round_ticks([value for line in self.lines for value in line.y]), HEIGHT - BOTTOM, TOP)


class Histogram(NamedTuple):
    """How often values fall into ranges of equal width; bars of several texts are drawn in front of each other."""

    title: str
    unit: str  # what is counted
    counts: dict[str, Sequence[int]]  # by the CSS class that chooses the colour
    ticks: tuple[str, str, str]  # left, middle and right
    names_colours: bool = False  # whether a legend names the classes

    @property
    def highest(self) -> int:
        """The count of the highest bar."""
        return max(1, *(max(counts, default=0) for counts in self.counts.values()))


def round_ticks(values: Sequence[float]) -> tuple[float, ...]:
    """Three to eight round numbers that enclose the values, with equal steps of 1, 2 or 5 times a power of ten."""
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(number * step for number in range(first, max(last, first + 1) + 1))


def difference_bars(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The second score minus the first of each pair, and the width of its bar in per cent; the widest is 50."""
    differences = [second - first for first, second in pairs]
    largest = max(map(abs, differences), default=0.0) or 1.0
    return [(difference, 50 * abs(difference) / largest) for difference in differences]
