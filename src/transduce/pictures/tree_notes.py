"""In which phrases a parse tree differs from a reference tree of the same sentence, in sentences for the reader."""

from collections import Counter
from typing import NamedTuple

from transduce.pictures.tree_layout import LABEL_SIZE, PlacedNode, TreeLayout, shorten, text_width

__all__ = ["NOTE_HEIGHT", "NOTE_LEFT", "SWATCH", "TreeNotes", "compare", "figure_size"]

NOTE_HEIGHT = 20.0  # of a line
NOTE_LEFT = 24.0  # edge of the lines
SWATCH = 22.0  # width of the legend's box
NOTE_CHARACTERS = 110  # of a line in a figure


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
    unmatched = Counter(_key(node) for node in reference.nodes if node.is_phrase)
    extra = []
    for number, node in enumerate(layout.nodes):
        if node.is_phrase and not unmatched[_key(node)]:
            extra.append(number)
        elif node.is_phrase:
            unmatched[_key(node)] -= 1
    missing = tuple(_describe(node, reference) for node in _unmatched_nodes(reference, unmatched))
    phrases = sum(node.is_phrase for node in layout.nodes)
    legend = "Every phrase is in the reference tree."
    if extra:
        legend = f"Marked: {len(extra)} of {phrases} phrases, which the reference tree does not have."
    heading = "No phrase of the reference tree is missing."
    if missing:
        heading = f"Missing: {_count(len(missing))} of the reference tree."
    return TreeNotes(frozenset(extra), legend, heading, missing)


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


def _key(node: PlacedNode) -> tuple[str, int, int]:
    return node.label, node.first, node.last


def _unmatched_nodes(layout: TreeLayout, unmatched: Counter[tuple[str, int, int]]) -> list[PlacedNode]:
    """Returns as many nodes of each phrase as `unmatched` counts, in the order of the tree."""
    left = unmatched.copy()
    nodes = []
    for node in layout.nodes:
        if left[_key(node)] > 0 and node.is_phrase:
            left[_key(node)] -= 1
            nodes.append(node)
    return nodes


def _describe(node: PlacedNode, layout: TreeLayout) -> str:
    """Returns label, place and text of a phrase."""
    words = f"word {node.first + 1}"
    if node.last > node.first:
        words = f"words {node.first + 1}–{node.last + 1}"
    return f"{node.label}, {words}: {layout.text_of(node)}"


def _count(phrases: int) -> str:
    return f"{phrases} phrase{'s' if phrases > 1 else ''}"
