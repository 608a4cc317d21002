"""Pictures of attention and of parse trees, and of corpora: an interactive HTML page, or a figure in PNG or SVG."""

from transduce.pictures.drawing import draw, picture_format
from transduce.pictures.inspection_page import render_inspection_page
from transduce.pictures.tree import draw_tree

__all__ = ["draw", "draw_tree", "picture_format", "render_inspection_page"]
