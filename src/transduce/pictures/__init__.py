"""Pictures of attention and of parse trees: an interactive HTML page, or a figure in PNG or SVG."""

from transduce.pictures.drawing import draw, picture_format
from transduce.pictures.tree import draw_tree

__all__ = ["draw", "draw_tree", "picture_format"]
