"""A parse tree as a page, SVG or PNG, with the phrases in which it differs from a reference tree of the same sentence.

The SVG is a template, `templates/tree.svg.jinja`: a file of its own, or an element of the page, whose style sheet
overrides the colours.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

from transduce.pages import tree_layout
from transduce.pages.rendering import render, write_picture
from transduce.pages.tree_layout import (
    LABEL_SIZE,
    NOTE_HEIGHT,
    NOTE_LEFT,
    SWATCH,
    TreeLayout,
    lay_out,
    shorten,
    text_width,
)
from transduce.parsing.trees import Tree, format_tree

NOTE_CHARACTERS = 110  # of a line in a figure


def draw_tree(tree: Tree, path: Path, *, other: Tree | None = None) -> None:
    """Writes a picture of a cleaned tree to `path`; marks the phrases that the reference tree `other` does not have.

    `.svg` and `.png` are one figure: the words in a row, their parts of speech above them, the phrases above their
    parts. `.html` is one self-contained page that highlights the words of the phrase that the reader points at. The
    phrases that only `other` has are listed below the picture. Equal trees give equal bytes. A file is replaced
    atomically. Raises ValueError for another suffix, a tree that is not clean or has no words or too many, and an
    `other` of different words; OSError where the file cannot be written.
    """
    layout = lay_out(tree)
    notes = compare(layout, lay_out(other)) if other is not None else None
    values = {"layout": layout, "notes": notes, "size": figure_size(layout, notes), "places": tree_layout}

    def write_figure(target: Path, kind: str) -> None:
        # Imported here because Matplotlib takes a second to import, and the other formats do not need it.
        from transduce.pages.tree_figure import write_tree_figure

        write_tree_figure(layout, notes, target)

    page = partial(render, "tree.html.jinja", **values, brackets=format_tree(tree))
    write_picture(path, {"html": page, "svg": partial(render, "tree.svg.jinja", **values, is_file=True)}, write_figure)


class TreeNotes(NamedTuple):
    """The marked nodes of a picture, and what stands below it."""

    extra: frozenset[int]  # numbers of the nodes that the reference tree does not have
    legend: str
    heading: str  # of the missing phrases
    missing: tuple[str, ...]  # a line a phrase that only the reference tree has

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines, shortened where they are very long."""
        return tuple(shorten(line, NOTE_CHARACTERS) for line in (self.legend, self.heading, *self.missing))


def figure_size(layout: TreeLayout, notes: TreeNotes | None) -> tuple[float, float]:
    """Returns width and height of a figure of a tree, and of the notes below it."""
    if notes is None:
        return layout.width, layout.height
    longest = max(text_width(line, LABEL_SIZE) for line in notes.lines)
    width = max(layout.width, longest + SWATCH + 2 * NOTE_LEFT)
    return width, layout.height + NOTE_HEIGHT * (len(notes.lines) + 1)


def compare(layout: TreeLayout, reference: TreeLayout) -> TreeNotes:
    """Returns the differences: phrases are equal where label, first and last word are; parts of speech do not count.

    Raises ValueError where the words differ.
    """
    _check_words(layout, reference)
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
            words = f"words {node.first + 1}–{node.last + 1}" if node.last > node.first else f"word {node.first + 1}"
            missing.append(f"{node.label}, {words}: {reference.text_of(node)}")
    phrases = sum(node.is_phrase for node in layout.nodes)
    legend = "Every phrase is in the reference tree."
    if extra:
        legend = f"Marked: {len(extra)} of {phrases} phrases, which the reference tree does not have."
    heading = "No phrase of the reference tree is missing."
    if missing:
        heading = f"Missing: {len(missing)} phrase{'s' if len(missing) > 1 else ''} of the reference tree."
    return TreeNotes(frozenset(extra), legend, heading, tuple(missing))


def _check_words(layout: TreeLayout, reference: TreeLayout) -> None:
    """Raises ValueError where both trees are not of the same words."""
    words, reference_words = ([word.text for word in one.words] for one in (layout, reference))
    if words == reference_words:
        return
    pairs = zip([*words, None], [*reference_words, None], strict=False)
    place = next(place for place, (word, other) in enumerate(pairs) if word != other)
    of_both = [repr(side[place]) if place < len(side) else "none" for side in (words, reference_words)]
    raise ValueError(
        f"the reference tree is of another sentence: word {place + 1} is {of_both[1]} there and {of_both[0]} in the "
        "tree; give two trees of the same words"
    )
