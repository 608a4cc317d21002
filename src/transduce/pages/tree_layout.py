"""Computes the positions of the labels, lines and words in the picture of a parse tree.

Every node has columns of its own, which it shares only with the nodes inside it, so that labels do not overlap and
lines do not cross. Lengths are in typographic points in PNG and in pixels in SVG; x points right, and y points down.
"""

import unicodedata
from typing import NamedTuple

from transduce.pages.rendering import show_control_characters
from transduce.parsing.trees import Tree, preterminals, unescape_word

MAX_WORDS = 1000  # number of words in the longest sentence that is drawn
MARGIN = 24.0
WORD_SIZE, LABEL_SIZE = 14.0, 12.0  # font sizes
ROW_HEIGHT = 20.0  # height of a label with its box, and of a word
COLUMN_GAP = 12.0  # horizontal distance between neighbouring words or labels
LINE_HEIGHT = 20.0  # vertical distance between one row of labels and the next
BASELINE = 0.36  # distance of the baseline from the middle of a text, as a share of the font size
BOX_PADDING = 4.0  # distance from a label to the left and right edges of its box
NOTE_HEIGHT = 20.0  # height of a line of text under the tree
NOTE_LEFT = 24.0  # left edge of the text under the tree
SWATCH = 22.0  # width of the legend's box
LINE, MARK = "#9a9ca5", "#b3261e"  # colours of the lines, and of the phrases that a reference tree does not have
MAX_CHARACTERS = 60  # longer words are shortened to this length

NARROW, BROAD = frozenset("'ijlIJ,. /:;\\|f-t()[]!r\""), frozenset("mwMW%@")


class PlacedNode(NamedTuple):
    """A phrase or a part of speech with its position."""

    label: str
    x: float  # centre
    y: float  # middle
    width: float  # estimated width of the label
    parent: int | None  # number of the phrase that contains it; None for the root
    first: int  # number of its first word, from 0
    last: int
    is_phrase: bool  # False for a part of speech
    line: tuple[tuple[float, float], ...]  # the points of the line that connects it to its parent; empty for the root

    @property
    def span(self) -> tuple[str, int, int]:
        """Returns the label, the first word and the last word, which equal phrases have in common."""
        return self.label, self.first, self.last


class PlacedWord(NamedTuple):
    """A word with its position and its full text."""

    text: str
    x: float  # centre
    y: float  # middle
    width: float  # estimate

    @property
    def drawn(self) -> str:
        """Returns the text, shortened if it is very long."""
        return shorten(self.text, MAX_CHARACTERS)


class TreeLayout(NamedTuple):
    """The layout of a tree: its words, and its nodes from left to right, with each phrase before its parts."""

    nodes: tuple[PlacedNode, ...]
    words: tuple[PlacedWord, ...]
    width: float
    height: float

    def text_of(self, node: PlacedNode) -> str:
        """Returns the words of a node, joined by spaces."""
        return " ".join(word.text for word in self.words[node.first : node.last + 1])


class _Block(NamedTuple):
    """The columns that a node takes up; the blocks of its parts are side by side within them."""

    label: str
    words: tuple[str, ...]
    level: int  # 0 for a part of speech; a phrase is one level above its highest part
    width: float
    x: float  # centre of the label, from the left edge
    parts: tuple["_Block", ...]
    left: float  # left edge of the first part, from the left edge


def lay_out(tree: Tree) -> TreeLayout:
    """Computes the layout of a cleaned tree.

    Raises ValueError if the tree is not clean, or if it has no words or more than `MAX_WORDS`.
    """
    words = len(preterminals(tree))
    if words > MAX_WORDS:
        raise ValueError(f"the tree has {words} words, and a picture has at most {MAX_WORDS}: draw a shorter sentence")
    root = _block(tree)
    nodes: list[PlacedNode] = []
    _place(root, root.level, MARGIN, None, 0, nodes)
    words_y = _middle(root.level) + ROW_HEIGHT
    centres = [node.x for node in nodes if not node.is_phrase]
    placed = tuple(
        PlacedWord(word, x, words_y, text_width(shorten(word, MAX_CHARACTERS), WORD_SIZE))
        for word, x in zip(root.words, centres, strict=True)
    )
    return TreeLayout(tuple(nodes), placed, root.width + 2 * MARGIN, words_y + ROW_HEIGHT / 2 + MARGIN)


def _character_width(character: str) -> float:
    """Estimates the width of a character as a share of the font size, based on DejaVu Sans, which is a wide font."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0  # combining marks take up no space of their own
    if unicodedata.east_asian_width(character) in "WF" or character in BROAD:
        return 1.05
    if character in NARROW:
        return 0.42
    if character >= "\u0370":  # Greek, Cyrillic and all scripts after them, dashes, arrows
        return 0.95
    return 0.82 if character.isupper() or character in "#+<=>^~&" else 0.66


def text_width(text: str, size: float) -> float:
    """Estimates the width of `text` at font size `size`; the result is more likely to be too large than too small."""
    return size * sum(map(_character_width, text))


def shorten(text: str, characters: int) -> str:
    """Truncates `text` to at most `characters` characters, of which the last is "…" if any are left out."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _block(tree: Tree) -> _Block:
    """Computes the columns of a node, which are wide enough for its label, its word and all its parts.

    Raises ValueError if a part of speech does not have exactly one word.
    """
    label = show_control_characters(tree.label)
    label_width = text_width(label, LABEL_SIZE) + COLUMN_GAP
    parts = tuple(_block(child) for child in tree.children if isinstance(child, Tree))
    if not parts:
        if len(tree.children) != 1:
            count = len(tree.children)
            raise ValueError(f"the part of speech {tree.label} has {count} words; draw what `clean_tree` returns")
        word = show_control_characters(unescape_word(str(tree.children[0])))
        width = max(label_width, text_width(shorten(word, MAX_CHARACTERS), WORD_SIZE) + COLUMN_GAP)
        return _Block(label, (word,), 0, width, width / 2, (), 0.0)
    parts_width = sum(part.width for part in parts)
    # The label is in the middle between the labels of the first and the last part.
    x = (parts[0].x + parts_width - parts[-1].width + parts[-1].x) / 2
    left = max(0.0, label_width / 2 - x)
    x += left
    width = max(left + parts_width, x + label_width / 2)
    words = tuple(word for part in parts for word in part.words)
    return _Block(label, words, 1 + max(part.level for part in parts), width, x, parts, left)


def _place(block: _Block, top: int, left: float, parent: int | None, first: int, nodes: list[PlacedNode]) -> None:
    """Appends a node and then all its parts to `nodes`, each with its position and the line from its parent.

    `top` is the level of the root, `left` the position of the node's left edge, `parent` the number of the phrase that
    contains the node, and `first` the number of its first word.
    """
    number, half = len(nodes), ROW_HEIGHT / 2
    x, y = left + block.x, _middle(top - block.level)
    line: tuple[tuple[float, float], ...] = ()
    if parent is not None:
        above = nodes[parent]
        start = above.y + half
        # The line runs horizontally just under the phrase, where there are no other labels or lines, and then down in
        # the node's own columns, because slanted lines to the many parts of a wide phrase would overlap.
        bar = start + LINE_HEIGHT / 2
        line = ((above.x, start), (above.x, bar), (x, bar), (x, y - half))
    last = first + len(block.words) - 1
    width = text_width(block.label, LABEL_SIZE)
    nodes.append(PlacedNode(block.label, x, y, width, parent, first, last, bool(block.parts), line))
    left += block.left
    for part in block.parts:
        _place(part, top, left, number, first, nodes)
        left += part.width
        first += len(part.words)


def _middle(row: int) -> float:
    """Returns the y position of the middle of a row of labels; the root is in row 0."""
    return MARGIN + ROW_HEIGHT / 2 + row * (ROW_HEIGHT + LINE_HEIGHT)
