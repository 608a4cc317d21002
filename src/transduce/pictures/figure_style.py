"""The style of figures: fonts that have the characters of their texts, and equal bytes for equal pictures."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl

from transduce.pictures.fonts import choose_fonts, warn_of_missing, warn_of_order

__all__ = ["MAX_PIXELS", "figure_style"]

MAX_PIXELS = 40e6  # of a PNG; only sentences of about a hundred subwords reach it


@contextmanager
def figure_style(text: str, *, is_png: bool) -> Iterator[None]:
    """Chooses fonts that have the characters of `text`; keeps text as text in SVG, and its ids repeatable.

    Logs a warning where a PNG cannot show `text` as it should: a reader of SVG has fonts and writing order of its own.
    """
    fonts, missing = choose_fonts(text)
    if is_png:
        warn_of_missing(missing)
        warn_of_order(text)
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "transduce", "font.family": fonts}
    with mpl.rc_context(style), warnings.catch_warnings(), _quiet_font_search():
        for message in ("Glyph .* missing from", "Matplotlib currently does not support"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


@contextmanager
def _quiet_font_search() -> Iterator[None]:
    """Drops Matplotlib's messages that a font has no bold face: titles alone are bold, and DejaVu Sans has them."""
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
