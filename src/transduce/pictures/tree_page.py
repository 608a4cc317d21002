"""The page of a parse tree: template, style sheet, script and picture in one file that needs no network."""

import html
from importlib import resources
from string import Template

from transduce.pictures.attention import show_control_characters
from transduce.pictures.tree_layout import TreeLayout
from transduce.pictures.tree_notes import TreeNotes
from transduce.pictures.tree_svg import tree_element
from transduce.text.trees import Tree, format_tree

__all__ = ["render_tree_page"]


def render_tree_page(tree: Tree, layout: TreeLayout, notes: TreeNotes | None) -> str:
    """Returns the HTML of a tree: its sentence, its picture, the notes, and its brackets."""
    folder = resources.files(__package__)
    sentence = html.escape(layout.text_of(layout.nodes[0]))
    return Template((folder / "tree.html").read_text(encoding="utf-8")).substitute(
        sentence=sentence,
        style=(folder / "tree.css").read_text(encoding="utf-8"),
        tree=tree_element(layout, notes),
        notes=_notes(notes) if notes else "",
        brackets=html.escape(show_control_characters(format_tree(tree))),
        script=(folder / "tree.js").read_text(encoding="utf-8"),
    )


def _notes(notes: TreeNotes) -> str:
    """Returns the legend and the list of missing phrases, which are not shortened here."""
    legend = ' class="extra"' if notes.extra else ""
    missing = "".join(f'<li lang="" dir="auto" translate="no">{html.escape(line)}</li>\n' for line in notes.missing)
    heading = html.escape(notes.heading)
    return (
        '<section id="notes" aria-label="Comparison with the reference tree">\n'
        f"<p{legend}>{html.escape(notes.legend)}</p>\n<p>{heading}</p>\n"
        f"{f'<ul>{missing}</ul>' if missing else ''}\n</section>"
    )
