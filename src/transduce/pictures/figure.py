"""The figure to print: two layers as lines between two rows of words, then every layer and head as a heat map.

All of it lies on one pair of axes whose unit is the typographic point, y running down the page.
"""

import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from transduce.pictures.attention import AttentionMap

__all__ = ["write_figure"]

INK, MUTED, EDGE = "#1c1d22", "#5d606b", "#d9d7d2"
FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Color Emoji")
MARGIN = 28.0
BETWEEN = 34.0  # from panel to panel
TITLE = 52.0  # a panel's title, and the heads' numbers under it
WORD = 9.0  # size of the words that lines join
SPAN = 170.0  # length of an upright line
LONGEST = 20  # characters of a word that are shown
FAINTEST = 0.03  # weaker lines would not be seen
GAP = 2  # cells from heat map to heat map
WIDEST = 1150.0  # that all heads of a layer should take together
MOST_PIXELS = 40e6  # of a PNG; only sentences of a hundred words come near


def write_figure(parts: Sequence[AttentionMap], texts: tuple[str, str], path: Path, kind: str) -> None:
    """Writes the three attentions `parts` of the source and target `texts` as `kind`, png or svg."""
    # Without date and version the same record gives the same bytes.
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with _style():
        figure = _figure(parts, texts)
        width, height = figure.get_size_inches()
        dpi = min(180.0, float(np.sqrt(MOST_PIXELS / (width * height))))
        figure.savefig(path, format=kind, dpi=dpi, metadata=metadata)


@contextmanager
def _style() -> Iterator[None]:
    """Text stays text, names in the SVG repeat, and a glyph that no font has becomes a box without a warning."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "transduce",
        "font.family": [name for name in FONTS if name in installed],
    }
    with mpl.rc_context(style), warnings.catch_warnings():
        for message in ("Glyph .* missing from", "Matplotlib currently does not support"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def _figure(parts: Sequence[AttentionMap], texts: tuple[str, str]) -> Figure:
    """The panels one under the other: title, lines as in the paper's figures 3 to 5, all heat maps, scale."""
    encoder, decoder, cross = parts
    cell = _cell(parts)
    # The layer of the paper's figures is the fifth of six; its cross-attention is not shown there.
    panels: list[Lines | Maps] = [Lines(encoder, max(0, len(encoder.layers) - 2)), Lines(cross, len(cross.layers) - 1)]
    panels += [Maps(part, cell) for part in (encoder, cross, decoder)]
    width = max(480.0, *(panel.width for panel in panels)) + 2 * MARGIN
    heading = 64.0
    height = heading + sum(panel.height + BETWEEN for panel in panels) + 40.0 + 2 * MARGIN
    figure = Figure(figsize=(width / 72, height / 72), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(height, 0.0), autoscale_on=False)
    axes.set_axis_off()
    _write_heading(axes, texts, width)
    top = MARGIN + heading
    for panel in panels:
        panel.draw(axes, top, width)
        top += panel.height + BETWEEN
    _draw_scale(axes, top)
    return figure


def _cell(parts: Sequence[AttentionMap]) -> float:
    """Side of a heat map's cell: small enough for all heads in a row, large enough to read a word beside it."""
    most = max(len(weights) * (len(part.seen) + GAP) for part in parts for weights in part.layers)
    return min(11.0, max(4.0, WIDEST / most))


class Lines(NamedTuple):
    """One layer as lines between two rows of words, one colour a head (PAPER figures 3 to 5)."""

    part: AttentionMap
    layer: int

    @property
    def width(self) -> float:
        """The least that keeps the words apart."""
        return 1.5 * WORD * max(len(self.part.looking), len(self.part.seen))

    @property
    def height(self) -> float:
        """Title, both rows of words and the lines between."""
        return TITLE + _room(self.part.looking, WORD) + SPAN + _room(self.part.seen, WORD)

    def draw(self, axes: Axes, top: float, width: float) -> None:
        """Draws the panel from `top` down."""
        weights = self.part.layers[self.layer]
        title = f"{self.part.title}, layer {self.layer + 1} of {len(self.part.layers)}"
        _write(axes, MARGIN, top, title, size=12, weight="bold", va="top")
        _write(axes, MARGIN, top + 19, self.part.reading, size=9, color=MUTED, va="top")
        heads = MARGIN + 9 + 20 * np.arange(len(weights))
        _draw_heads(axes, self.part.colours, top + 41, heads)
        key = "from above to below; the fuller, the greater the weight"
        _write(axes, heads[-1] + 20, top + 41, key, size=9, color=MUTED, va="center_baseline")
        span = min(44.0 * max(weights.shape[1:]), width - 2 * MARGIN)
        upper = top + TITLE + _room(self.part.looking, WORD) + 6
        self._draw_lines(axes, span, upper)
        _write_upright(axes, self.part.looking, _middles(self.part.looking, span), upper - 4, size=WORD, va="bottom")
        _write_upright(axes, self.part.seen, _middles(self.part.seen, span), upper + SPAN + 4, size=WORD, va="top")

    def _draw_lines(self, axes: Axes, span: float, upper: float) -> None:
        weights = self.part.layers[self.layer]
        head, looking, seen = np.nonzero(weights >= FAINTEST)
        strength = weights[head, looking, seen]
        # Heads lie side by side, so that two that agree are both seen.
        shift = 0.6 * span / max(weights.shape[1:]) * ((head + 0.5) / len(weights) - 0.5)
        starts = np.stack([_middles(self.part.looking, span)[looking] + shift, np.full(len(head), upper)], axis=-1)
        ends = np.stack([_middles(self.part.seen, span)[seen] + shift, np.full(len(head), upper + SPAN)], axis=-1)
        colours = np.array([to_rgb(colour) for colour in self.part.colours])
        drawn = np.concatenate([colours[head], strength[:, None]], axis=-1)
        order = np.argsort(strength, kind="stable")
        segments = np.stack([starts, ends], axis=1)[order]
        axes.add_collection(LineCollection(list(segments), colors=list(drawn[order]), linewidths=1.4), autolim=False)


class Maps(NamedTuple):
    """Every layer and head of an attention as a heat map: a row a layer, a column a head."""

    part: AttentionMap
    cell: float

    @property
    def heads(self) -> int:
        """Columns: the most heads that a layer has."""
        return max(len(weights) for weights in self.part.layers)

    @property
    def margin(self) -> float:
        """Room on the left for a layer's number and its words."""
        return 24 + _room(self.part.looking, self.word)

    @property
    def word(self) -> float:
        """Size of the words at the edge."""
        return 0.86 * self.cell

    @property
    def step(self) -> tuple[float, float]:
        """From one map to the next, across and down."""
        return self.cell * (len(self.part.seen) + GAP), self.cell * (len(self.part.looking) + GAP)

    @property
    def width(self) -> float:
        """Words on the left, and the maps."""
        return self.margin + self.heads * self.step[0]

    @property
    def height(self) -> float:
        """Title, the maps, and words at the foot."""
        return TITLE + len(self.part.layers) * self.step[1] + _room(self.part.seen, self.word)

    def draw(self, axes: Axes, top: float, width: float) -> None:
        """Draws the panel from `top` down; the maps keep their size whatever the `width`."""
        across, down = self.step
        left, upper = MARGIN + self.margin, top + TITLE
        _write(axes, MARGIN, top, f"{self.part.title}, every layer and head", size=12, weight="bold", va="top")
        _write(axes, MARGIN, top + 19, self.part.reading, size=9, color=MUTED, va="top")
        middles = left + across * (np.arange(self.heads) + 0.5) - self.cell
        _draw_heads(axes, self.part.colours, upper - 10, middles)
        mosaic = self._mosaic()
        extent = (left, left + self.cell * mosaic.shape[1], upper + self.cell * mosaic.shape[0], upper)
        axes.imshow(mosaic, extent=extent, aspect="auto", interpolation="none", zorder=1)
        for number, weights in enumerate(self.part.layers):
            for head in range(len(weights)):
                corner = (left + head * across, upper + number * down)
                size = (across - GAP * self.cell, down - GAP * self.cell)
                axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=EDGE, linewidth=0.6, zorder=2))
        self._write_words(axes, left, upper)

    def _mosaic(self) -> np.ndarray:
        """All maps in one image, a pixel a cell: the head's colour, and as its fullness the root of the weight."""
        rows, columns = len(self.part.looking) + GAP, len(self.part.seen) + GAP
        mosaic = np.zeros((rows * len(self.part.layers), columns * self.heads, 4))
        colours = [to_rgb(colour) for colour in self.part.colours]
        for number, weights in enumerate(self.part.layers):
            for head, weight in enumerate(weights):
                tile = mosaic[number * rows : (number + 1) * rows - GAP, head * columns : (head + 1) * columns - GAP]
                tile[..., :3] = colours[head]
                tile[..., 3] = np.sqrt(np.clip(weight, 0.0, 1.0))
        return mosaic[:-GAP, :-GAP]

    def _write_words(self, axes: Axes, left: float, upper: float) -> None:
        """The words of the rows beside every layer, those of the columns under the last."""
        across, down = self.step
        for number in range(len(self.part.layers)):
            start = upper + number * down
            middle = start + (down - GAP * self.cell) / 2
            layer = f"layer {number + 1}"
            _write(axes, MARGIN + 5, middle, layer, size=9, color=MUTED, rotation=90, va="center", ha="center")
            for place, word in enumerate(self.part.looking):
                height = start + (place + 0.5) * self.cell
                _write(axes, left - 3, height, _shortened(word), size=self.word, va="center_baseline", ha="right")
        foot = upper + len(self.part.layers) * down - GAP * self.cell + 3
        for head in range(self.heads):
            middles = left + head * across + (np.arange(len(self.part.seen)) + 0.5) * self.cell
            _write_upright(axes, self.part.seen, middles, foot, size=self.word, va="top")


def _write_heading(axes: Axes, texts: tuple[str, str], width: float) -> None:
    """Both sentences at the top of the figure."""
    for place, (name, text) in enumerate(zip(("Source", "Target"), texts, strict=True)):
        size = min(12.0, (width - 2 * MARGIN - 60) / (0.62 * max(1, _columns(text))))
        height = MARGIN + 10 + 22 * place
        _write(axes, MARGIN, height, name, size=11, color=MUTED, va="center_baseline")
        _write(axes, MARGIN + 56, height, text, size=size, va="center_baseline")


def _draw_heads(axes: Axes, colours: Sequence[str], height: float, middles: np.ndarray) -> None:
    """The heads' numbers in squares of their colours, a square at each of `middles`."""
    for number, (colour, middle) in enumerate(zip(colours, middles, strict=False), start=1):
        axes.add_patch(Rectangle((middle - 7, height - 7), 14, 14, facecolor=colour, linewidth=0))
        _write(axes, middle, height, str(number), size=8, va="center_baseline", ha="center")


def _draw_scale(axes: Axes, top: float) -> None:
    """What weight a fullness of colour means."""
    _write(axes, MARGIN, top + 11, "Weight in the heat maps", size=9, color=MUTED, va="center_baseline")
    for place, weight in enumerate((0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)):
        left = MARGIN + 130 + 40 * place
        colour = (*to_rgb(MUTED), np.sqrt(weight))
        axes.add_patch(Rectangle((left, top), 40, 22, facecolor=colour, edgecolor=EDGE, linewidth=0.6))
        ink = "white" if weight > 0.4 else INK
        _write(axes, left + 20, top + 11, f"{weight:g}", size=9, color=ink, va="center_baseline", ha="center")


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Writes `text` in ink unless `style` says otherwise; `$` begins no mathematics."""
    axes.text(x, y, text, **{"color": INK, "parse_math": False, **style})


def _write_upright(axes: Axes, words: Sequence[str], middles: np.ndarray, height: float, **style: Any) -> None:
    """Writes each of `words` from below to above, at its place of `middles`."""
    for middle, word in zip(middles, words, strict=True):
        _write(axes, middle, height, _shortened(word), rotation=90, ha="center", **style)


def _shortened(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def _middles(words: Sequence[str], span: float) -> np.ndarray:
    """Where the words of a row stand, spread over `span`."""
    return MARGIN + (np.arange(len(words)) + 0.5) * span / len(words)


def _room(words: Sequence[str], size: float) -> float:
    """Length that the longest of `words` takes at `size`, both in points."""
    return 8 + 0.62 * size * max(_columns(_shortened(word)) for word in words)


def _columns(text: str) -> int:
    """Width of `text` in letters; those of East Asia take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
