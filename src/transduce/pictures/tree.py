"""Drawing a parse tree into a file, in the format that the file name asks for."""

from pathlib import Path

from transduce.pictures.drawing import picture_format
from transduce.pictures.tree_layout import lay_out
from transduce.pictures.tree_notes import compare
from transduce.pictures.tree_page import render_tree_page
from transduce.pictures.tree_svg import render_tree_svg
from transduce.storage.result_files import replace_file
from transduce.text.trees import Tree

__all__ = ["draw_tree"]


def draw_tree(tree: Tree, path: Path, *, other: Tree | None = None) -> None:
    """Writes a picture of a cleaned tree to `path`; marks the phrases that the reference tree `other` does not have.

    `.svg` and `.png` are one figure: the words in a row, their parts of speech above them, the phrases above their
    parts. `.html` is one self-contained page that highlights the words of the phrase that the reader points at. The
    phrases that only `other` has are listed below the picture. Equal trees give equal bytes. A file is replaced
    atomically. Raises ValueError for another suffix, a tree that is not clean or has no words or too many, and an
    `other` of different words; OSError where the file cannot be written.
    """
    kind = picture_format(path)
    layout = lay_out(tree)
    notes = compare(layout, lay_out(other)) if other is not None else None

    def write(target: Path) -> None:
        if kind == "png":
            # Imported here because Matplotlib takes a second to import, and the other formats do not need it.
            from transduce.pictures.tree_figure import write_tree_figure

            write_tree_figure(layout, notes, target)
            return
        text = render_tree_svg(layout, notes) if kind == "svg" else render_tree_page(tree, layout, notes)
        target.write_text(text, encoding="utf-8", newline="\n")

    replace_file(path, write)
