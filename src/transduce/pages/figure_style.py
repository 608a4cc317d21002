"""Saves Matplotlib figures deterministically, in installed fonts that together cover every character."""

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

MAX_PIXELS = 40e6  # of a PNG; only figures of sentences with about a hundred subwords reach this size
MAX_SIDE = 60_000  # pixels; Matplotlib's limit is 2^16

_log = logging.getLogger(__name__)

# The first font comes with Matplotlib. The others are tried before all other installed fonts.
FONTS = ("DejaVu Sans", "Noto Sans", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew", "Symbola")
BOXES = "Last Resort"  # the font whose glyphs are boxes
# The words with which the Unicode names of Chinese, Japanese and Korean characters begin.
EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH", "HALFWIDTH")
EMOJI = range(0x1F000, 0x1FB00)
SHOWN = 5  # number of characters that a warning names


def save_figure(build: Callable[[], Figure], text: str, path: Path, kind: Literal["png", "svg"], dpi: float) -> None:
    """Writes the figure that `build` returns to `path`, in fonts that contain the characters of `text`.

    The output is deterministic. In an SVG, text is stored as text instead of outlines, so that the viewer chooses the
    fonts and the writing direction. For a PNG, logs a warning if `text` cannot be shown correctly.
    """
    fonts, missing = choose_fonts(text)
    if kind == "png":
        warn_of_missing(missing)
        warn_of_order(text)
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "transduce", "font.family": fonts}
    # The date and the version are left out, so that the output is deterministic.
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
    """Returns the resolution of a figure in dots per inch: `dpi`, or less if the picture would be too large.

    `width` and `height` are in inches.
    """
    return min(dpi, MAX_SIDE / max(width, height), float(np.sqrt(MAX_PIXELS / (width * height))))


def choose_fonts(text: str) -> tuple[list[str], set[str]]:
    """Returns the fonts to search for the glyphs of `text`, by name and in order, and the characters that no font has.

    Fonts that were installed after Matplotlib built its list of fonts are found as well.
    """
    missing = {character for character in text if unicodedata.category(character)[0] not in "CZ"}
    names = [FONTS[0]]
    for name, path in _installed_fonts():
        if not missing:
            break
        try:
            font = ft2font.FT2Font(path)
        except (OSError, RuntimeError, ValueError):  # the font cannot be read
            continue
        if covered := {character for character in missing if font.get_char_index(ord(character))}:
            missing -= covered
            names.append(name)
    return list(dict.fromkeys(names)), missing


def _installed_fonts() -> Iterator[tuple[str, str]]:
    """Yields the name and the path of each upright font.

    Preferred fonts come first, and fonts that Matplotlib has not listed come last.
    """
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
    """Logs a warning if there are `missing` characters, which are drawn as boxes, and suggests packages with fonts."""
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
    """Logs a warning if `text` has right-to-left letters and this version of Matplotlib would reverse them."""
    has_layout = hasattr(ft2font, "__libraqm_version__")  # Matplotlib 3.11 and newer
    if not has_layout and any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        _log.warning(
            "warning: Matplotlib %s writes letters from left to right in a PNG, and these go from right to left; "
            "install Matplotlib 3.11 or newer, or draw into .svg or .html",
            mpl.__version__,
        )
