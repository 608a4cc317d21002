"""Draws pages about attention, trees, corpora, calibrations, systems and runs; some pictures also as PNG or SVG.

The report of runs is `report_page`, which needs the trainer and must be imported from its module.
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
