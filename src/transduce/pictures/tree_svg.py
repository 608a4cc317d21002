"""The picture of a parse tree as SVG: alone in a file, or as an element of the page.

Colours are attributes, which the style sheet of the page overrides. Every node has a title, which browsers show where
the reader points at it.
"""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from transduce.pictures.palette import INK, MUTED
from transduce.pictures.tree_layout import LABEL_SIZE, ROW_HEIGHT, WORD_SIZE, PlacedNode, TreeLayout
from transduce.pictures.tree_notes import NOTE_HEIGHT, NOTE_LEFT, SWATCH, TreeNotes, figure_size

__all__ = ["BASELINE", "BOX_PADDING", "LINE", "MARK", "render_tree_svg", "tree_element"]

LINE, MARK = "#9a9ca5", "#b3261e"
FONTS = "DejaVu Sans, Noto Sans, Noto Sans CJK JP, Noto Sans Arabic, Noto Sans Hebrew, sans-serif"
BASELINE = 0.36  # below the middle of a text, as a share of the font's size
BOX_PADDING = 4.0  # left and right of a label


def render_tree_svg(layout: TreeLayout, notes: TreeNotes | None) -> str:
    """Returns a file of SVG: the tree on white, and the notes below it."""
    width, height = figure_size(layout, notes)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONTS}">',
        f"<title>Parse tree: {escape(layout.text_of(layout.nodes[0]))}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        *_drawing(layout, notes),
        *(_notes(notes, layout.height) if notes else ()),
        "</svg>",
    )
    return "".join(f"{line}\n" for line in lines)


def tree_element(layout: TreeLayout, notes: TreeNotes | None) -> str:
    """Returns the SVG element of the page, whose nodes a reader can point at; the page itself has the notes."""
    width, height = f"{layout.width:.0f}", f"{layout.height:.0f}"
    return "\n".join(
        (
            f'<svg id="tree" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group"',
            '  aria-label="Parse tree" aria-describedby="brackets" lang="" translate="no">',
            '<rect id="highlight" rx="4"/>',
            *_drawing(layout, notes),
            "</svg>",
        )
    )


def _drawing(layout: TreeLayout, notes: TreeNotes | None) -> Iterator[str]:
    """Yields the lines of the tree, its labels and its words."""
    extra = notes.extra if notes else frozenset()
    yield f'<g class="lines" fill="none" stroke="{LINE}" shape-rendering="crispEdges">'
    for node in layout.nodes[1:]:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in node.line)
        yield f'<polyline points="{points}"/>'
    yield f'</g>\n<g text-anchor="middle" fill="{INK}">'
    for number, node in enumerate(layout.nodes):
        yield _node(layout, node, is_extra=number in extra)
    yield "</g>"


def _node(layout: TreeLayout, node: PlacedNode, *, is_extra: bool) -> str:
    """Returns a label in its box, and the word below a part of speech."""
    title = f"<title>{escape(f'{node.label}: {layout.text_of(node)}')}</title>"
    places = f'data-first="{node.first}" data-last="{node.last}"'
    if node.parent is not None:
        places += f' data-parent="{node.parent}"'
    kind = "phrase" if node.is_phrase else "tag"
    colour = MARK if is_extra else INK if node.is_phrase else MUTED
    label = _text(node.label, node.x, node.y, LABEL_SIZE, f' fill="{colour}"')
    if node.is_phrase:
        stroke = MARK if is_extra else "none"
        box = _box(node.x, node.y, node.width, ROW_HEIGHT - 2, f'stroke="{stroke}"')
        return f'<g class="node {kind}{" extra" * is_extra}" {places}>{title}{box}{label}</g>'
    word = layout.words[node.first]
    width = max(node.width, word.width)
    box = _box(node.x, (node.y + word.y) / 2, width, ROW_HEIGHT - 2 + word.y - node.y, 'stroke="none"')
    text = _text(word.drawn, word.x, word.y, WORD_SIZE, ' class="word"')
    return f'<g class="node {kind}" {places}>{title}{box}{label}{text}</g>'


def _box(x: float, y: float, width: float, height: float, style: str) -> str:
    """Returns a box with round corners around a middle; it takes the pointer, filled or not."""
    width += 2 * BOX_PADDING
    place = f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="4" fill="none" pointer-events="all" {style}/>'


def _text(text: str, x: float, y: float, size: float, style: str = "") -> str:
    """Returns a text around a middle, which has white space as it is."""
    return f'<text x="{x:.1f}" y="{y + BASELINE * size:.1f}" font-size="{size:g}"{style}>{escape(text)}</text>'


def _notes(notes: TreeNotes, top: float) -> Iterator[str]:
    """Yields the legend with a box as the marked labels have, and the missing phrases."""
    if notes.extra:
        yield _box(NOTE_LEFT + SWATCH / 2, top + NOTE_HEIGHT / 2, SWATCH - 2 * BOX_PADDING, 14, f'stroke="{MARK}"')
    yield f'<g class="notes" fill="{INK}">'
    for number, line in enumerate(notes.lines):
        left = NOTE_LEFT + (SWATCH + 8 if notes.extra and number == 0 else 0)
        yield _text(line, left, top + NOTE_HEIGHT * (number + 0.5), LABEL_SIZE)
    yield "</g>"
