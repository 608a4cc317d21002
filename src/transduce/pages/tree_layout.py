"""Positions of the labels, lines and words of a parse tree in its picture.

Every node has its own columns, which no node outside it enters, so that labels do not overlap and lines do not cross.
Lengths are typographic points in PNG and pixels in SVG; x points right, y points down.
"""

import unicodedata
from typing import NamedTuple

from transduce.pages.rendering import show_control_characters
from transduce.parsing.trees import Tree, preterminals, unescape_word

MAX_WORDS = 1000  # of the longest sentence that is drawn
MARGIN = 24.0
WORD_SIZE, LABEL_SIZE = 14.0, 12.0  # of the fonts
ROW_HEIGHT = 20.0  # height of a label with its box, and of a word
COLUMN_GAP = 12.0  # between neighbouring words or labels
LINE_HEIGHT = 20.0  # between one row of labels and the next
BASELINE = 0.36  # below the middle of a text, as a share of the font's size
BOX_PADDING = 4.0  # left and right of a label
NOTE_HEIGHT = 20.0  # height of a line below the tree
NOTE_LEFT = 24.0  # left edge of the lines below the tree
SWATCH = 22.0  # width of the legend's box
LINE, MARK = "#9a9ca5", "#b3261e"  # colours of the lines, and of the phrases that a reference tree does not have
MAX_CHARACTERS = 60  # of a word; longer words are shortened

NARROW, BROAD = frozenset("'ijlIJ,. /:;\\|f-t()[]!r\""), frozenset("mwMW%@")


class PlacedNode(NamedTuple):
    """A phrase or a part of speech at its position."""

    label: str
    x: float  # centre
    y: float  # middle
    width: float  # estimate, of the label only
    parent: int | None  # number of the phrase that contains it
    first: int  # number of its first word, from 0
    last: int
    is_phrase: bool  # False for a part of speech
    line: tuple[tuple[float, float], ...]  # points from the phrase that contains it; empty for the root

    @property
    def span(self) -> tuple[str, int, int]:
        """The values that equal phrases share: label, first word and last word."""
        return self.label, self.first, self.last


class PlacedWord(NamedTuple):
    """A word at its position, with its full text."""

    text: str
    x: float  # centre
    y: float  # middle
    width: float  # estimate

    @property
    def drawn(self) -> str:
        """The text, shortened if it is very long."""
        return shorten(self.text, MAX_CHARACTERS)


class TreeLayout(NamedTuple):
    """The picture of a tree: its words, and its nodes from left to right, each phrase before its parts."""

    nodes: tuple[PlacedNode, ...]
    words: tuple[PlacedWord, ...]
    width: float
    height: float

    def text_of(self, node: PlacedNode) -> str:
        """The words of a node, joined by spaces."""
        return " ".join(word.text for word in self.words[node.first : node.last + 1])


class _Block(NamedTuple):
    """The columns that a node takes; the blocks of its parts are side by side within them."""

    label: str
    words: tuple[str, ...]
    level: int  # 0 for a part of speech; a phrase stands one level above its highest part
    width: float
    x: float  # centre of the label, from the left edge
    parts: tuple["_Block", ...]
    left: float  # left edge of the first part, from the left edge


def lay_out(tree: Tree) -> TreeLayout:
    """Lays out the picture of a cleaned tree.

    Raises ValueError if the tree has no words or more than `MAX_WORDS`, or if it is not clean.
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
    """Width of a character as a share of the font size; fitted to DejaVu Sans, a broad font."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0  # marks lie on the letter before them
    if unicodedata.east_asian_width(character) in "WF" or character in BROAD:
        return 1.05
    if character in NARROW:
        return 0.42
    if character >= "\u0370":  # Greek, Cyrillic and all scripts after them, dashes, arrows
        return 0.95
    return 0.82 if character.isupper() or character in "#+<=>^~&" else 0.66


def text_width(text: str, size: float) -> float:
    """Estimates the length of `text` at font size `size`, too long rather than too short."""
    return size * sum(map(_character_width, text))


def shorten(text: str, characters: int) -> str:
    """Cuts `text` to at most `characters`; the last of them is "…" if some are left out."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _block(tree: Tree) -> _Block:
    """Computes the columns of a node, wide enough for its label, its word and all its parts."""
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
    # The label stands in the middle between the first part and the last.
    x = (parts[0].x + parts_width - parts[-1].width + parts[-1].x) / 2
    left = max(0.0, label_width / 2 - x)
    x += left
    width = max(left + parts_width, x + label_width / 2)
    words = tuple(word for part in parts for word in part.words)
    return _Block(label, words, 1 + max(part.level for part in parts), width, x, parts, left)


def _place(block: _Block, top: int, left: float, parent: int | None, first: int, nodes: list[PlacedNode]) -> None:
    """Appends a node and all its parts at their positions, with the line from the phrase that contains each.

    `top` is the level of the root, `left` the node's left edge, `first` its first word.
    """
    number, half = len(nodes), ROW_HEIGHT / 2
    x, y = left + block.x, _middle(top - block.level)
    line: tuple[tuple[float, float], ...] = ()
    if parent is not None:
        above = nodes[parent]
        start = above.y + half
        # Across just below the phrase, where there are no other labels and lines, then down in the node's own columns.
        # Slanted lines to the many parts of a wide phrase would overlap.
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
    """Middle of a row of labels; row 0 is the root's."""
    return MARGIN + ROW_HEIGHT / 2 + row * (ROW_HEIGHT + LINE_HEIGHT)
