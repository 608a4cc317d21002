"""Pictures of attention: a page to explore, or a figure to print, from what the translator explains."""

from transduce.pictures.drawing import draw, picture_format

__all__ = ["draw", "picture_format"]
