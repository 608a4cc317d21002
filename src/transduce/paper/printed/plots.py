"""What the plots have in common."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["STYLES", "panels"]

STYLES = ("o-", "s-", "^-", "v--", "D-", "P-", "X-")  # lines that lie on each other are to be seen both

COLUMNS = 4  # at most, where the text is still read on a page


@contextmanager
def panels(
    path: Path, titles: list[str], *, columns: int = COLUMNS, height: float = 3.6, group: bool = False
) -> Iterator[list[Any]]:
    """Axes, so many beside each other, one under each title, with one scale of y or each its own; the bits repeat."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    with matplotlib.rc_context({"svg.hashsalt": path.stem, "font.size": 9, "axes.spines.top": False}):
        size = (4.2 * columns, height * rows)
        figure, cells = pyplot.subplots(rows, columns, figsize=size, layout="constrained", sharey=group, squeeze=False)
        axes = list(cells.flat)
        for spare in axes[len(titles) :]:
            spare.set_axis_off()
        for panel, title in zip(axes, titles):
            panel.set_title(title, fontsize=10)
            panel.grid(alpha=0.3)
            panel.spines["right"].set_visible(False)
        yield axes[: len(titles)]
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)
