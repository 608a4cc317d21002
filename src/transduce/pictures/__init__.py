"""Pictures of attention, trees, corpora, calibrations and two systems: HTML pages, or figures in PNG or SVG."""

from transduce.pictures.calibration import calibration_svg, draw_calibration
from transduce.pictures.comparison_page import draw_comparison
from transduce.pictures.drawing import draw_attention, picture_format, render_attention_page
from transduce.pictures.inspection_page import render_inspection_page
from transduce.pictures.tree import draw_tree

__all__ = [
    "calibration_svg",
    "draw_attention",
    "draw_calibration",
    "draw_comparison",
    "draw_tree",
    "picture_format",
    "render_attention_page",
    "render_inspection_page",
]
