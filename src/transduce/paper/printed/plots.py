"""Panels of a plot, drawn as an SVG file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STYLES = ("o-", "s-", "^-", "v--", "D-", "P-", "X-")  # different markers: coinciding lines stay visible

COLUMNS = 4  # more would make the text too small to read on a page


@contextmanager
def panels(
    path: Path, titles: list[str], *, columns: int = COLUMNS, height: float = 3.6, share_y: bool = False
) -> Iterator[list[Any]]:
    """Yields axes, one for each title, and saves them to `path`; the same curves give a bit-identical file."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "font.size": 9, "axes.spines.top": False}):
        size = (4.2 * columns, height * rows)
        figure, cells = pyplot.subplots(
            rows, columns, figsize=size, layout="constrained", sharey=share_y, squeeze=False
        )
        axes = list(cells.flat)
        for spare in axes[len(titles) :]:
            spare.set_axis_off()
        for panel, title in zip(axes, titles, strict=False):
            panel.set_title(title, fontsize=10)
            panel.grid(alpha=0.3)
            panel.spines["right"].set_visible(False)
        yield axes[: len(titles)]
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)
