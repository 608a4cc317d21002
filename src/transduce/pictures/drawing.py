"""Drawing the attention of a translation into a file, in the format that the file name asks for."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transduce.pictures.attention import attention_maps, show_control_characters
from transduce.pictures.attention_page import render_page
from transduce.storage.result_files import replace_file

if TYPE_CHECKING:
    from transduce.translation.results import Explanation

__all__ = ["draw_attention", "picture_format", "render_attention_page"]

PictureFormat = Literal["html", "png", "svg"]


def picture_format(path: Path) -> PictureFormat:
    """Returns the format that the suffix of `path` names; raises ValueError for another suffix."""
    formats: dict[str, PictureFormat] = {".html": "html", ".png": "png", ".svg": "svg"}
    if path.suffix.lower() not in formats:
        raise ValueError(f"cannot draw into `{path}`: the file's name must end in .html, .png or .svg")
    return formats[path.suffix.lower()]


def draw_attention(explanation: "Explanation", path: Path) -> None:
    """Writes a picture of all attention weights of `explanation` to `path` (as the paper's figures 3 to 5).

    `.html` is one self-contained page in which the reader chooses subwords, heads and layers; `.png` and `.svg` are one
    figure. Equal explanations give equal bytes. A file is replaced atomically. Raises ValueError for another suffix,
    OSError where the file cannot be written.
    """
    kind = picture_format(path)

    def write(target: Path) -> None:
        if kind == "html":
            target.write_text(render_attention_page(explanation), encoding="utf-8", newline="\n")
            return
        # Imported here because Matplotlib takes a second to import, and the page does not need it.
        from transduce.pictures.attention_figure import write_figure

        write_figure(attention_maps(explanation), _texts(explanation), target, kind)

    replace_file(path, write)


def render_attention_page(explanation: "Explanation") -> str:
    """Returns the page of all attention weights of `explanation`, which needs no other file."""
    return render_page(attention_maps(explanation), *_texts(explanation))


def _texts(explanation: "Explanation") -> tuple[str, str]:
    """Returns the source and the target as they are shown."""
    return show_control_characters(explanation.source_text), show_control_characters(explanation.target_text)
