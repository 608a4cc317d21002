"""The style of figures: chooses installed fonts that cover every character, and writes repeatable bytes."""

import logging
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager, ft2font
from matplotlib.figure import Figure

MAX_PIXELS = 40e6  # of a PNG; only sentences of about a hundred subwords reach it
MAX_SIDE = 60_000  # pixels; Matplotlib's limit is 2^16

_log = logging.getLogger(__name__)

# The first font comes with Matplotlib. The others are tried before all other installed fonts.
FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew", "Symbola")
BOXES = "Last Resort"  # the font whose glyphs are boxes
# First words of the names of Chinese, Japanese and Korean characters.
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH")
EMOJI = range(0x1F000, 0x1FB00)
SHOWN = 5  # number of characters that a warning names


def save_figure(build: Callable[[], Figure], text: str, path: Path, kind: Literal["png", "svg"], dpi: float) -> None:
    """Writes the figure that `build` returns, in fonts that have the characters of `text`; SVG keeps text as text.

    Equal figures give equal bytes. Logs a warning if a PNG cannot show `text` correctly; a viewer of SVG has its own
    fonts and writing order.
    """
    fonts, missing = choose_fonts(text)
    if kind == "png":
        warn_of_missing(missing)
        warn_of_order(text)
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "transduce", "font.family": fonts}
    # Without date and version, equal figures give equal bytes.
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    # Matplotlib logs that a font has no bold face. Only titles are bold, and DejaVu Sans has bold letters.
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with mpl.rc_context(style), warnings.catch_warnings():
            for message in ("Glyph .* missing from", "Matplotlib currently does not support"):
                warnings.filterwarnings("ignore", message=message, category=UserWarning)
            figure = build()
            width, height = figure.get_size_inches()
            figure.savefig(path, format=kind, dpi=resolution(width, height, dpi), metadata=metadata)
    finally:
        logger.setLevel(level)


def resolution(width: float, height: float, dpi: float) -> float:
    """Dots per inch for a figure with sides in inches: fewer if the picture would be too large."""
    return min(dpi, MAX_SIDE / max(width, height), float(np.sqrt(MAX_PIXELS / (width * height))))


def choose_fonts(text: str) -> tuple[list[str], set[str]]:
    """Returns the fonts to search for the glyphs of `text`, by name and in order, and the characters that no font has.

    Also finds fonts that were installed after Matplotlib listed the fonts.
    """
    missing = {character for character in text if unicodedata.category(character)[0] not in "CZ"}
    names = [FONTS[0]]
    for name, path in _installed_fonts():
        if not missing:
            break
        try:
            font = ft2font.FT2Font(path)
        except (OSError, RuntimeError, ValueError):  # it cannot be read
            continue
        if covered := {character for character in missing if font.get_char_index(ord(character))}:
            missing -= covered
            names.append(name)
    return list(dict.fromkeys(names)), missing


def _installed_fonts() -> Iterator[tuple[str, str]]:
    """Yields name and path of each upright font, preferred fonts first, then fonts that Matplotlib has not listed."""
    manager = font_manager.fontManager
    listed = {entry.fname: entry.name for entry in manager.ttflist if entry.style == "normal"}
    ranks = {name: rank for rank, name in enumerate(FONTS)}
    ranked = sorted(listed.items(), key=lambda pair: (ranks.get(pair[1], len(FONTS)), pair[1], pair[0]))
    yield from ((name, path) for path, name in ranked if not name.startswith(BOXES))
    all_listed = {entry.fname for entry in manager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - all_listed):
        count = len(manager.ttflist)
        try:
            manager.addfont(path)
        except (OSError, RuntimeError, ValueError):  # a damaged file, or a format that Matplotlib does not read
            continue
        yield from ((entry.name, path) for entry in manager.ttflist[count : count + 1])


def warn_of_missing(missing: set[str]) -> None:
    """Logs which characters are drawn as boxes, if any, and the package of a font that has them."""
    if not missing:
        return
    ordered, packages = sorted(missing), set[str]()
    for character in ordered:  # Matplotlib cannot read fonts with coloured emoji
        is_east_asian = unicodedata.name(character, "").startswith(EAST_ASIAN)
        other = "fonts-symbola" if ord(character) in EMOJI else "fonts-noto-core"
        packages.add("fonts-noto-cjk" if is_east_asian else other)
    more = f" and {len(ordered) - SHOWN:,} more" if len(ordered) > SHOWN else ""
    _log.warning(
        "warning: no installed font has %s%s, which the picture shows as boxes; install a font that has them, such as "
        "Debian's %s, or draw into .html",
        " ".join(ordered[:SHOWN]),
        more,
        ", ".join(sorted(packages)),
    )


def warn_of_order(text: str) -> None:
    """Logs a warning if `text` has right-to-left letters and this Matplotlib writes them from left to right."""
    has_layout = hasattr(ft2font, "__libraqm_version__")  # from 3.11 on
    if not has_layout and any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        _log.warning(
            "warning: Matplotlib %s writes letters from left to right in a PNG, and these go from right to left; "
            "install Matplotlib 3.11 or newer, or draw into .svg or .html",
            mpl.__version__,
        )
