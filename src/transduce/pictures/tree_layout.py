"""Where the labels, lines and words of a parse tree stand in its picture.

Every node has columns of its own, which no other node outside of it enters: labels do not overlap, lines do not cross.
Lengths are typographic points in PNG and pixels in SVG; x points right, y points down.
"""

import unicodedata
from typing import NamedTuple

from transduce.pictures.attention import show_control_characters
from transduce.text.trees import Tree, preterminals, unescape_word

__all__ = [
    "LABEL_SIZE",
    "MAX_WORDS",
    "ROW_HEIGHT",
    "WORD_SIZE",
    "PlacedNode",
    "PlacedWord",
    "TreeLayout",
    "lay_out",
    "shorten",
    "text_width",
]

MAX_WORDS = 1000
"""The longest sentence that is drawn."""

MARGIN = 24.0
WORD_SIZE, LABEL_SIZE = 14.0, 12.0  # of the fonts
ROW_HEIGHT = 20.0  # of a label with its box, and of a word
COLUMN_GAP = 12.0  # between neighbouring words or labels
LINE_HEIGHT = 20.0  # between a row of labels and the next
MAX_CHARACTERS = 60  # of a word that are drawn

NARROW, BROAD = frozenset("'ijlIJ,. /:;\\|f-t()[]!r\""), frozenset("mwMW%@")


class PlacedNode(NamedTuple):
    """A phrase or a part of speech in its place."""

    label: str
    x: float  # centre
    y: float  # middle
    width: float  # estimate, of the label alone
    parent: int | None  # number of the phrase around it
    first: int  # number of its first word, from 0
    last: int
    is_phrase: bool  # False of a part of speech
    line: tuple[tuple[float, float], ...]  # points from the phrase around it; of the root none


class PlacedWord(NamedTuple):
    """A word in its place, as text has it."""

    text: str
    x: float  # centre
    y: float  # middle
    width: float  # estimate

    @property
    def drawn(self) -> str:
        """The text, shortened where it is very long."""
        return shorten(self.text, MAX_CHARACTERS)


class TreeLayout(NamedTuple):
    """The picture of a tree: its words, and its nodes from left to right, each phrase before its parts."""

    nodes: tuple[PlacedNode, ...]
    words: tuple[PlacedWord, ...]
    width: float
    height: float

    def text_of(self, node: PlacedNode) -> str:
        """Returns the words of a node, with spaces between them."""
        return " ".join(word.text for word in self.words[node.first : node.last + 1])


class _Block(NamedTuple):
    """The columns that a node takes; the blocks of its parts stand side by side in them."""

    label: str
    words: tuple[str, ...]
    level: int  # 0 of a part of speech; a phrase stands a level above its highest part
    width: float
    x: float  # centre of the label, from the left edge
    parts: tuple["_Block", ...]
    left: float  # left edge of the first part, from the left edge


class _Site(NamedTuple):
    """A node across: its block, its centre, and where it stands in the tree."""

    block: _Block
    x: float
    parent: int | None
    first: int


def lay_out(tree: Tree) -> TreeLayout:
    """Returns the picture of a cleaned tree.

    Raises ValueError where the tree has no words or more than `MAX_WORDS`, or where it is not clean.
    """
    words = len(preterminals(tree))
    if words > MAX_WORDS:
        raise ValueError(f"the tree has {words} words, and a picture has at most {MAX_WORDS}: draw a shorter sentence")
    root = _block(tree)
    sites: list[_Site] = []
    _spread(root, MARGIN, None, 0, sites)
    nodes = tuple(_place(site, sites, root.level) for site in sites)
    words_y = _middle(root.level) + ROW_HEIGHT
    centres = [node.x for node in nodes if not node.is_phrase]
    placed = tuple(
        PlacedWord(word, x, words_y, text_width(shorten(word, MAX_CHARACTERS), WORD_SIZE))
        for word, x in zip(root.words, centres, strict=True)
    )
    return TreeLayout(nodes, placed, root.width + 2 * MARGIN, words_y + ROW_HEIGHT / 2 + MARGIN)


def text_width(text: str, size: float) -> float:
    """Returns the length of `text` at font size `size`: an estimate, too long rather than too short."""
    return size * sum(_character_width(character) for character in text)


def shorten(text: str, characters: int) -> str:
    """Returns `text` with at most `characters`, the last of which is "…" where some are left out."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def _character_width(character: str) -> float:
    """Returns the width of a character as a share of the font's size; fitted to DejaVu Sans, a broad font."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0  # marks lie on the letter before them
    if unicodedata.east_asian_width(character) in "WF" or character in BROAD:
        return 1.05
    if character in NARROW:
        return 0.42
    if character >= "\u0370":  # Greek, Cyrillic and all scripts after them, dashes, arrows
        return 0.95
    return 0.82 if character.isupper() or character in "#+<=>^~&" else 0.66


def _block(tree: Tree) -> _Block:
    """Returns the columns of a node, which are wide enough for its label, its word and all of its parts."""
    label = show_control_characters(tree.label)
    label_width = text_width(label, LABEL_SIZE) + COLUMN_GAP
    parts = tuple(_block(child) for child in tree.children if isinstance(child, Tree))
    if not parts:
        word = _word(tree)
        width = max(label_width, text_width(shorten(word, MAX_CHARACTERS), WORD_SIZE) + COLUMN_GAP)
        return _Block(label, (word,), 0, width, width / 2, (), 0.0)
    parts_width = sum(part.width for part in parts)
    # In the middle between the first part and the last.
    x = (parts[0].x + parts_width - parts[-1].width + parts[-1].x) / 2
    left = max(0.0, label_width / 2 - x)
    x += left
    width = max(left + parts_width, x + label_width / 2)
    words = tuple(word for part in parts for word in part.words)
    return _Block(label, words, 1 + max(part.level for part in parts), width, x, parts, left)


def _word(tree: Tree) -> str:
    """Returns the one word of a part of speech, with pictures of control characters."""
    if len(tree.children) != 1:
        count = len(tree.children)
        raise ValueError(f"the part of speech {tree.label} has {count} words; draw what `clean_tree` returns")
    return show_control_characters(unescape_word(str(tree.children[0])))


def _spread(block: _Block, left: float, parent: int | None, first: int, sites: list[_Site]) -> None:
    """Appends the sites of a node and of all its parts; `left` is the node's left edge."""
    number = len(sites)
    sites.append(_Site(block, left + block.x, parent, first))
    left += block.left
    for part in block.parts:
        _spread(part, left, number, first, sites)
        left += part.width
        first += len(part.words)


def _place(site: _Site, sites: list[_Site], top: int) -> PlacedNode:
    """Returns a node in its place, with the line from the phrase around it; `top` is the level of the root."""
    block, half = site.block, ROW_HEIGHT / 2
    y = _middle(top - block.level)
    line: tuple[tuple[float, float], ...] = ()
    if site.parent is not None:
        parent = sites[site.parent]
        start = _middle(top - parent.block.level) + half
        # Across right below the phrase, where other labels and lines are not; then down in columns of its own. Slanted
        # lines to the many parts of a wide phrase would lie on each other.
        bar = start + LINE_HEIGHT / 2
        line = ((parent.x, start), (parent.x, bar), (site.x, bar), (site.x, y - half))
    last = site.first + len(block.words) - 1
    width = text_width(block.label, LABEL_SIZE)
    return PlacedNode(block.label, site.x, y, width, site.parent, site.first, last, bool(block.parts), line)


def _middle(row: int) -> float:
    """Returns the middle of a row of labels; row 0 is the root's."""
    return MARGIN + ROW_HEIGHT / 2 + row * (ROW_HEIGHT + LINE_HEIGHT)
