"""The picture of a calibration: confidence against quality, and how often each confidence is, before and after."""

from pathlib import Path
from typing import Literal

from transduce.measure.calibration import ReliabilityCurve
from transduce.pages.charts import ChartLine, Histogram, LineChart
from transduce.pages.rendering import render, write_picture

TITLES = ("before: probability of a token", "after: confidence")


def draw_calibration(before: ReliabilityCurve, after: ReliabilityCurve, path: Path) -> None:
    """Writes reliability diagrams and histograms of a calibration to `path`.

    `.html` is one self-contained page, which has the points as a table too; `.png` and `.svg` are one figure. Equal
    calibrations give equal bytes. A file is replaced atomically. Raises ValueError for another suffix, OSError where
    the file cannot be written.
    """

    def write_figure(target: Path, kind: Literal["png", "svg"]) -> None:
        # Imported here because Matplotlib takes a second to import.
        from transduce.pages.calibration_figure import write_calibration_figure

        write_calibration_figure((before, after), TITLES, target, kind)

    def page() -> str:
        return render(
            "calibration.html.jinja",
            sentences=sum(one.sentences for one in after.bins),
            figures=calibration_charts(before, after),
            points=list(zip(before.bins, after.bins, strict=True)),
        )

    write_picture(path, {"html": page}, write_figure)


def calibration_charts(before: ReliabilityCurve, after: ReliabilityCurve) -> list[tuple[LineChart, Histogram]]:
    """Returns the charts of a page: before and after, a reliability diagram and how often each confidence is."""
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
