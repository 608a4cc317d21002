"""The colours that figures share, without Matplotlib."""

__all__ = ["EDGE", "INK", "MUTED"]

INK, MUTED, EDGE = "#1c1d22", "#5d606b", "#d9d7d2"
