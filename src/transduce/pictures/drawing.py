"""A record of attention drawn into a file, the format told by the file's suffix."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transduce.pictures.attention import attentions, displayed
from transduce.pictures.page import page

if TYPE_CHECKING:
    from transduce.translation.results import Explanation

__all__ = ["draw", "picture_format"]

Format = Literal["html", "png", "svg"]


def picture_format(path: Path) -> Format:
    """The format that the suffix of `path` asks for; a `ValueError` where it is none of the three."""
    formats: dict[str, Format] = {".html": "html", ".png": "png", ".svg": "svg"}
    if path.suffix.lower() not in formats:
        raise ValueError(f"cannot draw into `{path}`: the file's name must end in .html, .png or .svg")
    return formats[path.suffix.lower()]


def draw(explanation: "Explanation", path: Path) -> None:
    """Writes every attention of `explanation` (PAPER figures 3 to 5) into `path`.

    `.html` is one self-contained page in which words, heads and layers are chosen; `.png` and `.svg` are one
    figure of the whole record. The same record gives the same bytes. A `ValueError` for another suffix, an
    `OSError` where the file cannot be written.
    """
    kind = picture_format(path)
    parts = attentions(explanation)
    texts = displayed(explanation.source_text), displayed(explanation.target_text)
    if kind == "html":
        path.write_text(page(parts, *texts), encoding="utf-8", newline="\n")
        return
    # Matplotlib takes a second to import, and the page has no need of it.
    from transduce.pictures.figure import write_figure

    write_figure(parts, texts, path, kind)
