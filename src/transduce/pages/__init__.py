"""Draws HTML pages of attention weights, parse trees, corpora, calibrations and comparisons of systems.

Some of the pictures can also be drawn as PNG or SVG. Reports about runs are drawn by `report_page`, which must be
imported from its own module, because it depends on the trainer.
"""

from transduce.pages.attention_drawing import draw_attention, render_attention_page
from transduce.pages.calibration_drawing import draw_calibration
from transduce.pages.comparison_page import draw_comparison
from transduce.pages.inspection_page import render_inspection_page
from transduce.pages.rendering import picture_format
from transduce.pages.tree_drawing import draw_tree

__all__ = [
    "draw_attention",
    "draw_calibration",
    "draw_comparison",
    "draw_tree",
    "picture_format",
    "render_attention_page",
    "render_inspection_page",
]
