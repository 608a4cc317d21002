"""The figure of a calibration in PNG or SVG: two reliability diagrams above two histograms."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from transduce.measure.calibration import ReliabilityCurve
from transduce.pages.figure_style import save_figure
from transduce.pages.rendering import EDGE, INK, MUTED

COLOURS = ("#a84a00", "#1f5fbf")
SIZE = (9.0, 5.8)  # inches
DPI = 160.0


def write_calibration_figure(
    curves: Sequence[ReliabilityCurve], titles: Sequence[str], path: Path, kind: Literal["png", "svg"]
) -> None:
    """Writes the figure of the curves before and after a calibration."""

    def build() -> Figure:
        figure = Figure(figsize=SIZE, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.12))
        diagrams, histograms = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(3, 1))
        for column, (curve, title) in enumerate(zip(curves, titles, strict=True)):
            axes, colour = diagrams[column], COLOURS[column]
            # The bins are points; without an error they would be on the dashed line.
            axes.set_title(f"{title}\ncalibration error {curve.error:.3f}", fontsize=11, color=INK, loc="left")
            axes.plot((0, 1), (0, 1), color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            points = np.array([(one.prediction, one.quality) for one in curve.bins])
            axes.plot(points[:, 0], points[:, 1], color=colour, linewidth=1.5, marker="o", markersize=6, clip_on=False)
            axes.set(xlim=(0, 1), ylim=(0, 1))
            _style(axes)
            axes, edges = histograms[column], np.linspace(0, 1, len(curve.histogram) + 1)
            axes.bar(edges[:-1], curve.histogram, width=1 / len(curve.histogram) - 0.006, align="edge", color=colour)
            axes.set_xlabel("confidence", color=INK)
            axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
            _style(axes)
        diagrams[0].set_ylabel("mean chrF / 100", color=INK)
        histograms[0].set_ylabel("translations", color=INK)
        return figure

    save_figure(build, "".join(titles), path, kind, DPI)


def _style(axes: Axes) -> None:
    """Draws thin lines at the ticks, and no box."""
    axes.set_axisbelow(True)
    axes.grid(color=EDGE, linewidth=0.6)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=MUTED, length=0, labelsize=9)
