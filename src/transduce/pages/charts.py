"""Line charts and histograms: where their lines, bars and ticks stand; `templates/charts.html.jinja` draws them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 520, 246
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 40
Y_TITLE_WIDTH = 16
HISTOGRAM_HEIGHT = 150
GROUND = HISTOGRAM_HEIGHT - 22  # where the bars of a histogram stand


class Axis(NamedTuple):
    """An axis that begins and ends at a round number; `begin` and `end` are its ends in the picture."""

    ticks: tuple[float, ...]
    begin: float
    end: float

    def place(self, value: float) -> float:
        """Returns the place of a value."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return self.begin + (self.end - self.begin) * share


class ChartLine(NamedTuple):
    """A line of a chart, or a point; its class chooses the colour, such as that of one run in all charts."""

    css_class: str
    x: Sequence[float]
    y: Sequence[float]
    has_points: bool = False  # whether its points are drawn too


class LineChart(NamedTuple):
    """Lines on common axes."""

    title: str
    x_title: str
    lines: Sequence[ChartLine]
    y_title: str = ""

    @property
    def x_axis(self) -> Axis:
        """The axis below, from left to right."""
        left = LEFT + Y_TITLE_WIDTH if self.y_title else LEFT
        return Axis(round_ticks([value for line in self.lines for value in line.x]), left, WIDTH - RIGHT)

    @property
    def y_axis(self) -> Axis:
        """The axis on the left, from bottom to top."""
        return Axis(round_ticks([value for line in self.lines for value in line.y]), HEIGHT - BOTTOM, TOP)


class Histogram(NamedTuple):
    """How often values are in ranges of equal width; bars of several texts stand before each other."""

    title: str
    unit: str  # what is counted
    counts: dict[str, Sequence[int]]  # by the class that chooses the colour
    ticks: tuple[str, str, str]  # on the left, in the middle, on the right
    names_colours: bool = False  # whether a legend has the names of the classes

    @property
    def highest(self) -> int:
        """The count of the highest bar."""
        return max(1, *(max(counts, default=0) for counts in self.counts.values()))


def round_ticks(values: Sequence[float]) -> tuple[float, ...]:
    """Returns three to eight round numbers that enclose the values, with equal steps of 1, 2 or 5 by a power of ten."""
    low, high = min(values), max(values)
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(number * step for number in range(first, max(last, first + 1) + 1))


def difference_bars(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the second score minus the first of each pair, and the width of its bar: the largest has 50 per cent."""
    differences = [second - first for first, second in pairs]
    largest = max(map(abs, differences), default=0.0) or 1.0
    return [(difference, 50 * abs(difference) / largest) for difference in differences]
