"""Draws attention weights as a PNG or SVG figure.

The figure shows two layers as lines between subwords, followed by every layer and head as a heat map. All panels are
drawn on the same axes, whose unit is the typographic point; y points down.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transduce.pages.attention_drawing import AttentionMap
from transduce.pages.figure_style import save_figure
from transduce.pages.rendering import EDGE, INK, MUTED
from transduce.pages.tree_layout import shorten

DPI = 180.0
MARGIN = 28.0
HEADING_HEIGHT = 64.0  # height of the two sentences at the top
PANEL_GAP = 34.0
TITLE_HEIGHT = 52.0  # height of a panel's title and the numbers of the heads
FONT_SIZE = 9.0  # font size of the subwords that are connected by lines
LINE_LENGTH = 170.0  # vertical distance between the two rows of subwords
MAX_CHARACTERS = 20  # longer subwords are shortened to this length
MIN_WEIGHT = 0.03  # the line of a smaller weight would be invisible
MAP_GAP = 2  # gap between heat maps, in cells
MAPS_WIDTH = 1150.0  # largest width of a row of heat maps, unless the cells would become too small


def write_attention_figure(
    attentions: Sequence[AttentionMap], texts: tuple[str, str], path: Path, kind: Literal["png", "svg"]
) -> None:
    """Writes the figure to `path`, with the source and target `texts` at the top and a colour scale at the bottom."""

    def build() -> Figure:
        encoder, decoder, cross = attentions
        # Cells are small enough that all heads of a layer fit in a row, and large enough for a subword next to each.
        unit_panels = [HeatMapPanel(attention, cell=1.0) for attention in attentions]
        cell = min(11.0, max(4.0, MAPS_WIDTH / max(panel.heads * panel.step[0] for panel in unit_panels)))
        # The paper's figures show layer 5 of 6 of the encoder, and no cross-attention.
        panels: list[LinePanel | HeatMapPanel] = [
            LinePanel(encoder, max(0, len(encoder.layers) - 2)),
            LinePanel(cross, len(cross.layers) - 1),
            *(HeatMapPanel(attention, cell) for attention in (encoder, cross, decoder)),
        ]
        width = max(480.0, *(panel.width for panel in panels)) + 2 * MARGIN
        height = HEADING_HEIGHT + sum(panel.height + PANEL_GAP for panel in panels) + 40.0 + 2 * MARGIN
        figure = Figure(figsize=(width / 72, height / 72), facecolor="white")
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(height, 0.0), autoscale_on=False)
        axes.set_axis_off()
        for index, (name, text) in enumerate(zip(("Source", "Target"), texts, strict=True)):
            size = min(12.0, (width - 2 * MARGIN - 60) / (0.62 * max(1, _display_width(text))))
            heading = MARGIN + 10 + 22 * index
            _write(axes, MARGIN, heading, name, size=11, color=MUTED, va="center_baseline")
            _write(axes, MARGIN + 56, heading, text, size=size, va="center_baseline")
        top = MARGIN + HEADING_HEIGHT
        for panel in panels:
            panel.draw(axes, top, width)
            top += panel.height + PANEL_GAP
        _write(axes, MARGIN, top + 11, "Weight in the heat maps", size=9, color=MUTED, va="center_baseline")
        for index, weight in enumerate((0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)):
            left = MARGIN + 130 + 40 * index
            colour = (*to_rgb(MUTED), np.sqrt(weight))
            axes.add_patch(Rectangle((left, top), 40, 22, facecolor=colour, edgecolor=EDGE, linewidth=0.6))
            ink = "white" if weight > 0.4 else INK
            _write(axes, left + 20, top + 11, f"{weight:g}", size=9, color=ink, va="center_baseline", ha="center")
        return figure

    subwords = (subword for each in attentions for side in (each.queries, each.keys) for subword in side)
    save_figure(build, "".join((*texts, *subwords)), path, kind, DPI)


class LinePanel:
    """A panel that shows one layer as lines between two rows of subwords, with one colour per head.

    Figures 3 to 5 of the paper show attention in this way.
    """

    def __init__(self, attention: AttentionMap, layer: int) -> None:
        """Computes the smallest width at which subwords do not touch, and the height of the whole panel."""
        self.attention, self.layer = attention, layer
        self.width = 1.5 * FONT_SIZE * max(len(attention.queries), len(attention.keys))
        queries, keys = (_text_length(subwords, FONT_SIZE) for subwords in (attention.queries, attention.keys))
        self.height = TITLE_HEIGHT + queries + LINE_LENGTH + keys

    def draw(self, axes: Axes, top: float, width: float) -> None:
        """Draws the panel in a figure of the given width, with its upper edge at `top`."""
        attention, weights = self.attention, self.attention.layers[self.layer]
        title = f"{attention.title}, layer {self.layer + 1} of {len(attention.layers)}"
        _write_title(axes, top, title, attention.description)
        heads = MARGIN + 9 + 20 * np.arange(len(weights))
        _draw_heads(axes, attention.colours, top + 41, heads)
        legend = "from above to below; a fuller colour is a greater weight"
        _write(axes, heads[-1] + 20, top + 41, legend, size=9, color=MUTED, va="center_baseline")
        span = min(44.0 * max(weights.shape[1:]), width - 2 * MARGIN)
        upper = top + TITLE_HEIGHT + _text_length(attention.queries, FONT_SIZE) + 6
        head, query, key = np.nonzero(weights >= MIN_WEIGHT)
        opacity = weights[head, query, key]
        # The lines of the heads are drawn side by side, so that all lines between the same subwords are visible.
        shift = 0.6 * span / max(weights.shape[1:]) * ((head + 0.5) / len(weights) - 0.5)
        starts = np.stack([_centres(attention.queries, span)[query] + shift, np.full(len(head), upper)], axis=-1)
        ends = np.stack([_centres(attention.keys, span)[key] + shift, np.full(len(head), upper + LINE_LENGTH)], axis=-1)
        colours = np.array([to_rgb(colour) for colour in attention.colours])
        rgba = np.concatenate([colours[head], opacity[:, None]], axis=-1)
        order = np.argsort(opacity, kind="stable")
        segments = np.stack([starts, ends], axis=1)[order]
        axes.add_collection(LineCollection(list(segments), colors=list(rgba[order]), linewidths=1.4), autolim=False)
        for subwords, edge, side in (
            (attention.queries, upper - 4, "bottom"),
            (attention.keys, upper + LINE_LENGTH + 4, "top"),
        ):
            _write_upright(axes, subwords, _centres(subwords, span), edge, size=FONT_SIZE, va=side)


class HeatMapPanel:
    """A panel that shows every layer and head as a heat map, with one row per layer and one column per head."""

    def __init__(self, attention: AttentionMap, cell: float) -> None:
        """Computes the size of the panel; its left margin contains the number and the subwords of each layer."""
        self.attention, self.cell = attention, cell
        self.heads = max(len(weights) for weights in attention.layers)  # of the layer with the most heads
        self.font_size = 0.86 * cell
        self.margin = 24 + _text_length(attention.queries, self.font_size)
        # The horizontal and the vertical distance from one map to the next.
        self.step = cell * (len(attention.keys) + MAP_GAP), cell * (len(attention.queries) + MAP_GAP)
        self.width = self.margin + self.heads * self.step[0]
        keys = _text_length(attention.keys, self.font_size)
        self.height = TITLE_HEIGHT + len(attention.layers) * self.step[1] + keys

    def draw(self, axes: Axes, top: float, width: float) -> None:
        """Draws the panel with its upper edge at `top`; its size does not depend on the width of the figure."""
        across, down = self.step
        left, upper = MARGIN + self.margin, top + TITLE_HEIGHT
        _write_title(axes, top, f"{self.attention.title}, every layer and head", self.attention.description)
        centres = left + across * (np.arange(self.heads) + 0.5) - self.cell
        _draw_heads(axes, self.attention.colours, upper - 10, centres)
        mosaic = self._mosaic()
        extent = (left, left + self.cell * mosaic.shape[1], upper + self.cell * mosaic.shape[0], upper)
        axes.imshow(mosaic, extent=extent, aspect="auto", interpolation="none", zorder=1)
        for number, weights in enumerate(self.attention.layers):
            start, size = upper + number * down, (across - MAP_GAP * self.cell, down - MAP_GAP * self.cell)
            for head in range(len(weights)):
                corner = (left + head * across, start)
                axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=EDGE, linewidth=0.6, zorder=2))
        # The queries are written next to every layer, and the keys under the last layer.
        for number in range(len(self.attention.layers)):
            start = upper + number * down
            middle, layer = start + (down - MAP_GAP * self.cell) / 2, f"layer {number + 1}"
            _write(axes, MARGIN + 5, middle, layer, size=9, color=MUTED, rotation=90, va="center", ha="center")
            for index, subword in enumerate(self.attention.queries):
                height, label = start + (index + 0.5) * self.cell, shorten(subword, MAX_CHARACTERS)
                _write(axes, left - 3, height, label, size=self.font_size, va="center_baseline", ha="right")
        foot = upper + len(self.attention.layers) * down - MAP_GAP * self.cell + 3
        for head in range(self.heads):
            centres = left + head * across + (np.arange(len(self.attention.keys)) + 0.5) * self.cell
            _write_upright(axes, self.attention.keys, centres, foot, size=self.font_size, va="top")

    def _mosaic(self) -> np.ndarray:
        """Returns all maps as one RGBA image with one pixel per cell: the head's colour with opacity √weight."""
        rows, columns = len(self.attention.queries) + MAP_GAP, len(self.attention.keys) + MAP_GAP
        mosaic = np.zeros((rows * len(self.attention.layers), columns * self.heads, 4))
        colours = [to_rgb(colour) for colour in self.attention.colours]
        for number, weights in enumerate(self.attention.layers):
            for head, weight in enumerate(weights):
                first_row, first_column = number * rows, head * columns
                tile = mosaic[first_row : first_row + rows - MAP_GAP, first_column : first_column + columns - MAP_GAP]
                tile[..., :3] = colours[head]
                tile[..., 3] = np.sqrt(np.clip(weight, 0.0, 1.0))
        return mosaic[:-MAP_GAP, :-MAP_GAP]


def _write_title(axes: Axes, top: float, title: str, description: str) -> None:
    """Writes the title of a panel, and its description in the next line."""
    _write(axes, MARGIN, top, title, size=12, weight="bold", va="top")
    _write(axes, MARGIN, top + 19, description, size=9, color=MUTED, va="top")


def _draw_heads(axes: Axes, colours: Sequence[str], height: float, centres: np.ndarray) -> None:
    """Draws a square in the colour of each head, with the number of the head, at each of `centres`."""
    for number, (colour, centre) in enumerate(zip(colours, centres, strict=False), start=1):
        axes.add_patch(Rectangle((centre - 7, height - 7), 14, 14, facecolor=colour, linewidth=0))
        _write(axes, centre, height, str(number), size=8, va="center_baseline", ha="center")


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Writes `text`, in which `$` is an ordinary character and does not begin a formula."""
    axes.text(x, y, text, **{"color": INK, "parse_math": False, **style})


def _write_upright(axes: Axes, subwords: Sequence[str], centres: np.ndarray, height: float, **style: Any) -> None:
    """Writes each subword vertically, from bottom to top, at its position in `centres`."""
    for centre, subword in zip(centres, subwords, strict=True):
        _write(axes, centre, height, shorten(subword, MAX_CHARACTERS), rotation=90, ha="center", **style)


def _centres(subwords: Sequence[str], span: float) -> np.ndarray:
    """Returns the x positions of the centres of subwords that are spread evenly over a row of length `span`."""
    return MARGIN + (np.arange(len(subwords)) + 0.5) * span / len(subwords)


def _text_length(subwords: Sequence[str], size: float) -> float:
    """Returns the estimated length of the longest subword at font size `size`, both in points."""
    return 8 + 0.62 * size * max(_display_width(shorten(subword, MAX_CHARACTERS)) for subword in subwords)


def _display_width(text: str) -> int:
    """Returns the width of `text` in characters; wide East Asian characters count as two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
