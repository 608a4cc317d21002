"""Draws a parse tree as a page, SVG or PNG, and marks where it differs from a reference tree of the same sentence.

The SVG is rendered from `templates/tree.svg.jinja`. It is either a file of its own or an element of the page, whose
style sheet overrides the colours.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from transduce.pages import tree_layout
from transduce.pages.rendering import INK, MUTED, render, write_picture
from transduce.pages.tree_layout import TreeLayout, lay_out, shorten, text_width
from transduce.parsing.trees import Tree, format_tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI, MIN_DPI = 160.0, 48.0  # of a PNG; at the lowest resolution, letters are about five pixels high
NOTE_CHARACTERS = 110  # largest number of characters in a line of a figure


def draw_tree(tree: Tree, path: Path, *, other: Tree | None = None) -> None:
    """Writes a picture of a cleaned tree to `path`, and marks the phrases that the reference tree `other` lacks.

    The suffix of `path` determines the format. `.svg` and `.png` are figures with the words in a row, their parts of
    speech above them, and each phrase above its parts. `.html` is a self-contained page, on which the words of a phrase
    are highlighted when the reader points at the phrase. Phrases that only `other` has are listed under the picture.
    The output is deterministic, and an existing file is replaced atomically.

    Raises ValueError for any other suffix, if a tree is not clean, if it has no words or too many, and if the words of
    `other` are different. Raises OSError if the file cannot be written.
    """
    layout = lay_out(tree)
    notes = compare(layout, lay_out(other)) if other is not None else None
    size = layout.width, layout.height
    if notes is not None:
        longest = max(text_width(line, tree_layout.LABEL_SIZE) for line in notes.lines)
        width = max(layout.width, longest + tree_layout.SWATCH + 2 * tree_layout.NOTE_LEFT)
        size = width, layout.height + tree_layout.NOTE_HEIGHT * (len(notes.lines) + 1)
    values = {"layout": layout, "notes": notes, "size": size, "places": tree_layout}

    def write_figure(target: Path, kind: str) -> None:
        # Imported here because Matplotlib takes a second to import, and the other formats do not need it.
        from transduce.pages.figure_style import resolution, save_figure

        if resolution(size[0] / 72, size[1] / 72, DPI) < MIN_DPI:
            words = len(layout.words)
            raise ValueError(
                f"the letters of a tree of {words} words would be too small in a PNG: draw into .svg or .html"
            )
        texts = [node.label for node in layout.nodes] + [word.drawn for word in layout.words]
        texts += notes.lines if notes else ()
        save_figure(lambda: _build_figure(layout, notes, size), "".join(texts), target, "png", DPI)

    page = partial(render, "tree.html.jinja", **values, brackets=format_tree(tree))
    write_picture(path, {"html": page, "svg": partial(render, "tree.svg.jinja", **values, is_file=True)}, write_figure)


class TreeNotes(NamedTuple):
    """The nodes that are marked in a picture, and the text under the picture."""

    extra: frozenset[int]  # numbers of the nodes that the reference tree does not have
    legend: str
    heading: str  # of the missing phrases
    missing: tuple[str, ...]  # one line for each phrase that only the reference tree has

    @property
    def lines(self) -> tuple[str, ...]:
        """Returns all lines of the text; very long lines are shortened."""
        return tuple(shorten(line, NOTE_CHARACTERS) for line in (self.legend, self.heading, *self.missing))


def compare(layout: TreeLayout, reference: TreeLayout) -> TreeNotes:
    """Compares a tree with a reference tree.

    Two phrases are equal if they have the same label, the same first word and the same last word; parts of speech are
    ignored. Raises ValueError if the trees have different words.
    """
    words, reference_words = ([word.text for word in one.words] for one in (layout, reference))
    if words != reference_words:
        pairs = zip([*words, None], [*reference_words, None], strict=False)
        index = next(index for index, (word, other) in enumerate(pairs) if word != other)
        of_both = [repr(texts[index]) if index < len(texts) else "none" for texts in (words, reference_words)]
        raise ValueError(
            f"the reference tree is of another sentence: word {index + 1} is {of_both[1]} there and {of_both[0]} in "
            "the tree; give two trees of the same words"
        )
    unmatched = Counter(node.span for node in reference.nodes if node.is_phrase)
    extra = []
    for number, node in enumerate(layout.nodes):
        if node.is_phrase and not unmatched[node.span]:
            extra.append(number)
        elif node.is_phrase:
            unmatched[node.span] -= 1
    missing = []
    for node in reference.nodes:
        if node.is_phrase and unmatched[node.span]:
            unmatched[node.span] -= 1
            span = f"words {node.first + 1}–{node.last + 1}" if node.last > node.first else f"word {node.first + 1}"
            missing.append(f"{node.label}, {span}: {reference.text_of(node)}")
    phrases = sum(node.is_phrase for node in layout.nodes)
    legend = "Every phrase is in the reference tree."
    if extra:
        legend = f"Marked: {len(extra)} of {phrases} phrases, which the reference tree does not have."
    heading = "No phrase of the reference tree is missing."
    if missing:
        heading = f"Missing: {len(missing)} phrase{'s' if len(missing) > 1 else ''} of the reference tree."
    return TreeNotes(frozenset(extra), legend, heading, tuple(missing))


def _build_figure(layout: TreeLayout, notes: TreeNotes | None, size: tuple[float, float]) -> "Figure":
    """Builds the Matplotlib figure, in which coordinates are in typographic points."""
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    width, height = size
    figure = Figure(figsize=(width / 72, height / 72), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0.0, width), ylim=(height, 0.0), autoscale_on=False)
    axes.set_axis_off()

    def write(text: str, x: float, y: float, size: float, **style: Any) -> None:
        """Writes a text that is vertically centred at `y`; `$` is an ordinary character, and begins no formula."""
        axes.text(x, y + tree_layout.BASELINE * size, text, size=size, parse_math=False, va="baseline", **style)

    def draw_box(x: float, y: float, width: float, height: float) -> None:
        """Draws a box with rounded corners, whose centre is at (x, y)."""
        corner, style = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=4"
        box = FancyBboxPatch(
            corner, width, height, boxstyle=style, facecolor="none", edgecolor=tree_layout.MARK, linewidth=1
        )
        axes.add_patch(box)

    extra = notes.extra if notes else frozenset()
    lines = [np.array(node.line) for node in layout.nodes if node.line]
    axes.add_collection(LineCollection(lines, colors=tree_layout.LINE, linewidths=0.9, capstyle="round"), autolim=False)
    for number, node in enumerate(layout.nodes):
        colour = tree_layout.MARK if number in extra else INK if node.is_phrase else MUTED
        write(node.label, node.x, node.y, tree_layout.LABEL_SIZE, color=colour, ha="center")
        if number in extra:
            draw_box(node.x, node.y, node.width + 2 * tree_layout.BOX_PADDING, tree_layout.ROW_HEIGHT - 2)
    for word in layout.words:
        write(word.drawn, word.x, word.y, tree_layout.WORD_SIZE, color=INK, ha="center")
    if extra:  # the legend has a box like the marked labels
        draw_box(
            tree_layout.NOTE_LEFT + tree_layout.SWATCH / 2,
            layout.height + tree_layout.NOTE_HEIGHT / 2,
            tree_layout.SWATCH,
            14,
        )
    for number, line in enumerate(notes.lines if notes else ()):
        left = tree_layout.NOTE_LEFT + (tree_layout.SWATCH + 8 if extra and number == 0 else 0)
        write(line, left, layout.height + tree_layout.NOTE_HEIGHT * (number + 0.5), tree_layout.LABEL_SIZE, color=INK)
    return figure
