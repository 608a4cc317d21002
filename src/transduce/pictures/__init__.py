"""Pictures of attention: an interactive HTML page, or a figure in PNG or SVG."""

from transduce.pictures.drawing import draw, picture_format

__all__ = ["draw", "picture_format"]
