"""Pictures of attention, trees, corpora, calibrations and two systems: HTML pages, or figures in PNG or SVG."""

from transduce.pictures.calibration import calibration_svg, draw_calibration
from transduce.pictures.comparison_page import draw_comparison
from transduce.pictures.drawing import attention_page, draw, picture_format
from transduce.pictures.inspection_page import render_inspection_page
from transduce.pictures.tree import draw_tree

__all__ = [
    "attention_page",
    "calibration_svg",
    "draw",
    "draw_calibration",
    "draw_comparison",
    "draw_tree",
    "picture_format",
    "render_inspection_page",
]
