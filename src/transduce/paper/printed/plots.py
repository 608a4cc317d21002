"""What the plots have in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["panels"]


@contextmanager
def panels(path: Path, titles: list[str], *, height: float = 3.6, together: bool = False) -> Iterator[list[Any]]:
    """Axes side by side, one under each title, with one scale of y or each its own, in an SVG whose bits repeat."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": path.stem, "font.size": 9, "axes.spines.top": False}):
        size = (4.2 * len(titles), height)
        figure, axes = pyplot.subplots(1, len(titles), figsize=size, layout="constrained", sharey=together)
        axes = [axes] if len(titles) == 1 else list(axes)
        for panel, title in zip(axes, titles, strict=True):
            panel.set_title(title, fontsize=10)
            panel.grid(alpha=0.3)
            panel.spines["right"].set_visible(False)
        yield axes
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
