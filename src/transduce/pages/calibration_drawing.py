"""Draws reliability diagrams and histograms of the confidence before and after calibration."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from transduce.measure.calibration import ReliabilityCurve
from transduce.pages.charts import ChartLine, Histogram, LineChart
from transduce.pages.rendering import EDGE, INK, MUTED, render, write_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#a84a00", "#1f5fbf")  # colours in the figure, before and after calibration
SIZE = (9.0, 5.8)  # inches
DPI = 160.0
TITLES = ("before: probability of a token", "after: confidence")


def draw_calibration(before: ReliabilityCurve, after: ReliabilityCurve, path: Path) -> None:
    """Writes reliability diagrams and histograms of the confidence before and after calibration to `path`.

    The suffix of `path` determines the format: `.html` is a self-contained page, which also lists the points in a
    table, and `.png` and `.svg` are figures. The output is deterministic, and an existing file is replaced atomically.
    Raises ValueError for any other suffix, and OSError if the file cannot be written.
    """

    def write_figure(target: Path, kind: Literal["png", "svg"]) -> None:
        from transduce.pages.figure_style import save_figure

        save_figure(lambda: _build_figure(before, after), "".join(TITLES), target, kind, DPI)

    def page() -> str:
        return render(
            "calibration.html.jinja",
            sentences=sum(one.sentences for one in after.bins),
            figures=calibration_charts(before, after),
            points=list(zip(before.bins, after.bins, strict=True)),
        )

    write_picture(path, {"html": page}, write_figure)


def calibration_charts(before: ReliabilityCurve, after: ReliabilityCurve) -> list[tuple[LineChart, Histogram]]:
    """Returns the charts of a page: a reliability diagram and a histogram, before and after calibration."""
    charts = []
    for number, (title, curve) in enumerate(zip(TITLES, (before, after), strict=True)):
        predictions, qualities = [one.prediction for one in curve.bins], [one.quality for one in curve.bins]
        lines = [
            ChartLine("without-error", (0, 1), (0, 1)),
            ChartLine(f"run{number}", predictions, qualities, has_points=True),
        ]
        title = f"{title}, calibration error {curve.error:.3f}"
        bars = Histogram(
            "translations by confidence", "translations", {f"run{number}": curve.histogram}, ("0", "0.5", "1")
        )
        charts.append((LineChart(title, "confidence", lines, "mean chrF / 100"), bars))
    return charts


def _build_figure(before: ReliabilityCurve, after: ReliabilityCurve) -> "Figure":
    """Builds the Matplotlib figure, with two reliability diagrams above two histograms."""
    # Imported here because Matplotlib takes a second to import.
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=SIZE, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.12))
    diagrams, histograms = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1))
    for diagram, histogram, curve, title, colour in zip(
        diagrams, histograms, (before, after), TITLES, COLOURS, strict=True
    ):
        # Each bin is a point; without calibration error, all points would lie on the dashed line.
        diagram.set_title(f"{title}\ncalibration error {curve.error:.3f}", fontsize=11, color=INK, loc="left")
        diagram.plot((0, 1), (0, 1), color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        points = np.array([(one.prediction, one.quality) for one in curve.bins])
        diagram.plot(points[:, 0], points[:, 1], color=colour, linewidth=1.5, marker="o", markersize=6, clip_on=False)
        diagram.set(xlim=(0, 1), ylim=(0, 1))
        edges, width = np.linspace(0, 1, len(curve.histogram) + 1), 1 / len(curve.histogram) - 0.006
        histogram.bar(edges[:-1], curve.histogram, width=width, align="edge", color=colour)
        histogram.set_xlabel("confidence", color=INK)
        histogram.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        for axes in (diagram, histogram):  # thin lines at the ticks, and no box
            axes.set_axisbelow(True)
            axes.grid(color=EDGE, linewidth=0.6)
            axes.spines[:].set_visible(False)
            axes.tick_params(colors=MUTED, length=0, labelsize=9)
    diagrams[0].set_ylabel("mean chrF / 100", color=INK)
    histograms[0].set_ylabel("translations", color=INK)
    return figure
