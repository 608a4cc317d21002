"""The picture of a parse tree as PNG."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from transduce.pages.figure_style import resolution, save_figure
from transduce.pages.rendering import INK, MUTED
from transduce.pages.tree_drawing import TreeNotes, figure_size
from transduce.pages.tree_layout import (
    BASELINE,
    BOX_PADDING,
    LABEL_SIZE,
    LINE,
    MARK,
    NOTE_HEIGHT,
    NOTE_LEFT,
    ROW_HEIGHT,
    SWATCH,
    WORD_SIZE,
    TreeLayout,
)

DPI, MIN_DPI = 160.0, 48.0  # at the least, letters have five pixels


def write_tree_figure(layout: TreeLayout, notes: TreeNotes | None, path: Path) -> None:
    """Writes the figure; raises ValueError where its letters would be too small to read."""
    width, height = (points / 72 for points in figure_size(layout, notes))
    if resolution(width, height, DPI) < MIN_DPI:
        count = len(layout.words)
        raise ValueError(f"the letters of a tree of {count} words would be too small in a PNG: draw into .svg or .html")

    def build() -> Figure:
        figure = Figure(figsize=(width, height), facecolor="white")
        sides = (0.0, 0.0, 1.0, 1.0)
        axes = figure.add_axes(sides, xlim=(0.0, 72 * width), ylim=(72 * height, 0.0), autoscale_on=False)
        axes.set_axis_off()
        extra = notes.extra if notes else frozenset()
        lines = [np.array(node.line) for node in layout.nodes if node.line]
        axes.add_collection(LineCollection(lines, colors=LINE, linewidths=0.9, capstyle="round"), autolim=False)
        for number, node in enumerate(layout.nodes):
            colour = MARK if number in extra else INK if node.is_phrase else MUTED
            _write(axes, node.label, (node.x, node.y), LABEL_SIZE, color=colour, ha="center")
            if number in extra:
                _draw_box(axes, node.x, node.y, node.width + 2 * BOX_PADDING, ROW_HEIGHT - 2)
        for word in layout.words:
            _write(axes, word.drawn, (word.x, word.y), WORD_SIZE, color=INK, ha="center")
        if notes and notes.extra:  # the legend has a box as the marked labels have
            _draw_box(axes, NOTE_LEFT + SWATCH / 2, layout.height + NOTE_HEIGHT / 2, SWATCH, 14)
        for number, line in enumerate(notes.lines if notes else ()):
            left = NOTE_LEFT + (SWATCH + 8 if extra and number == 0 else 0)
            _write(axes, line, (left, layout.height + NOTE_HEIGHT * (number + 0.5)), LABEL_SIZE, color=INK)
        return figure

    drawn = [
        *(node.label for node in layout.nodes),
        *(word.drawn for word in layout.words),
        *(notes.lines if notes else ()),
    ]
    save_figure(build, "".join(drawn), path, "png", DPI)


def _write(axes: Axes, text: str, place: tuple[float, float], size: float, **style: Any) -> None:
    """Writes a text whose middle is at the height of `place`; `$` is a dollar sign, and does not begin mathematics."""
    x, y = place
    axes.text(x, y + BASELINE * size, text, size=size, parse_math=False, va="baseline", **style)


def _draw_box(axes: Axes, x: float, y: float, width: float, height: float) -> None:
    """Draws a box with round corners around a middle."""
    corner = (x - width / 2, y - height / 2)
    style = "round,pad=0,rounding_size=4"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, facecolor="none", edgecolor=MARK, linewidth=1))
