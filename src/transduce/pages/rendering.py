"""Renders Jinja templates as pages, and writes pages and figures to files.

All HTML is in `templates`, and all CSS is in `assets/style.css`. In HTML templates, every value is escaped. In all
templates, control characters are made visible (see `visible`), and using an undefined variable is an error.
"""

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from transduce.measure.bootstrap import describe_p
from transduce.pages import charts
from transduce.runtime.extras import require_matplotlib
from transduce.storage.result_files import replace_file

PictureFormat = Literal["html", "png", "svg"]

INK, MUTED, EDGE = "#1c1d22", "#5d606b", "#d9d7d2"  # colours of figures in files, which have a white background

METRICS = {"bleu": "BLEU", "chrf": "chrF"}  # maps metrics to their names on pages

# XML forbids most control characters and two non-characters. Control characters are replaced with Unicode's pictures of
# them, and the non-characters with the replacement character.
CONTROL_PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: 0x2421, 0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}


def render(template: str, **values: object) -> str:
    """Renders the template called `template` with `values`."""
    return _environment.get_template(template).render(values)


def write_picture(
    path: Path,
    texts: dict[PictureFormat, Callable[[], str]],
    write_figure: Callable[[Path, Literal["png", "svg"]], None],
) -> None:
    """Writes a picture to `path` in the format that its suffix names.

    If the format is a key of `texts`, the function found there returns the content of the file. Otherwise,
    `write_figure` draws the picture with Matplotlib. An existing file is replaced atomically. Raises ValueError unless
    the suffix is .html, .png or .svg, and OSError if the file cannot be written.
    """
    kind = picture_format(path)
    if kind not in texts:
        require_matplotlib()

    def write(target: Path) -> None:
        if kind in texts:
            target.write_text(texts[kind](), encoding="utf-8", newline="\n")
        else:
            assert kind != "html"
            write_figure(target, kind)

    replace_file(path, write)


def picture_format(path: Path) -> PictureFormat:
    """Returns the format that the suffix of `path` names; raises ValueError unless it is .html, .png or .svg."""
    formats: dict[str, PictureFormat] = {".html": "html", ".png": "png", ".svg": "svg"}
    if path.suffix.lower() not in formats:
        raise ValueError(f"cannot draw into `{path}`: the file's name must end in .html, .png or .svg")
    return formats[path.suffix.lower()]


def show_control_characters(text: str) -> str:
    """Replaces each control character with a visible picture of it."""
    return text.translate(CONTROL_PICTURES)


def visible(value: object) -> object:
    """Makes the control characters of a string visible, and replaces bytes that are not UTF-8 with "?".

    Such bytes occur in file names. Markup and values that are not strings are returned unchanged.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return show_control_characters(value).encode("utf-8", "replace").decode()
    return value


def _script_json(record: object) -> Markup:
    """Formats a record as JSON that can safely be embedded in a script element."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


_environment = Environment(
    loader=PackageLoader(__package__),
    autoescape=lambda name: name is None or not name.endswith(".md.jinja"),
    undefined=StrictUndefined,
    finalize=visible,
    extensions=["jinja2.ext.do"],
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_assets = resources.files(__package__) / "assets"  # our own style sheets and scripts, which need no escaping
_environment.globals.update(asset=lambda name: Markup((_assets / name).read_text(encoding="utf-8")))
_environment.globals.update(charts=charts, METRICS=METRICS, INK=INK, MUTED=MUTED)
_environment.filters.update(
    count=lambda number: f"{number:,}",
    tick=lambda number: f"{number:,.10g}",
    p_value=describe_p,
    fixed=lambda number, digits=1: f"{number:.{digits}f}",
    signed=lambda number, digits=2: f"{number:+.{digits}f}".replace("-", "−"),
    script_json=_script_json,
)
