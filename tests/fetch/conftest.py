"""The fixtures of `fetch_world`."""

from fetch_world import layout, world

__all__ = ["layout", "world"]
