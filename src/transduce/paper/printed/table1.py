"""Table 1, what is stated beside what was found."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from transduce.paper.printed.cells import table
from transduce.paper.table1 import Claims, Row


def as_text(rows: Sequence[Row], found: Claims) -> str:
    """Table 1, what is stated beside what was found."""
    head = ["layer", "operations, stated", "exponents counted", "exponents of time", "sequential, stated", "found"]
    lines = []
    for row in rows:
        counted = ", ".join(f"{each.variable}^{each.counted:.2f}" for each in row.fitted)
        timed = ", ".join(f"{each.variable}^{each.timed:.2f}" for each in row.fitted)
        found_there = ", ".join(f"{products} at n {n}" for n, products in row.sequential)
        lines.append([row.kind.name, row.kind.stated, counted, timed, row.kind.sequential, found_there])
    paths = [
        [
            row.kind.name,
            row.kind.path,
            str(shape.n),
            *(str(getattr(shape, name)) if name in row.kind.powers else "" for name in ("k", "r")),
            "none" if long is None else str(long),
        ]
        for row in rows
        for shape, long in row.paths
    ]
    crossing = [[str(d), "not before 8,192" if n is None else f"{n:,.0f}"] for d, n in found.crossover.items()]
    costs = [[str(k), f"{ratio:.2f}"] for k, ratio in found.recurrences.items()]
    return "\n\n".join(
        [
            table(head, lines),
            "Longest path, in mixing operations on the shortest way between two positions:",
            table(["layer", "stated", "n", "k", "r", "found"], paths),
            "From which length self-attention takes longer than recurrence, by time:",
            table(["d", "n"], crossing),
            "Operations of one convolution, in recurrences:",
            table(["k", "recurrences"], costs),
            "Operations of a separable convolution of k = n, by those of self-attention with a position-wise network "
            "(the same at every n and d: they grow alike):",
            table(["n", "d", "ratio"], [[str(n), str(d), f"{ratio:.2f}"] for (n, d), ratio in found.separable.items()]),
        ]
    )


def draw(rows: Sequence[Row], out: Path) -> None:
    """Milliseconds against each variable, both logarithmic, with the stated slope beside."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "table1"
    variables: Mapping[str, str] = {"n": "length n", "d": "width d", "k": "kernel k", "r": "neighbours r"}
    figure, panels = pyplot.subplots(1, len(variables), figsize=(14, 4), sharey=True, layout="constrained")
    for panel, (variable, name) in zip(panels, variables.items(), strict=True):
        for number, row in enumerate(rows):
            for fitted in row.fitted:
                if fitted.variable == variable:
                    values, _, times = zip(*fitted.points, strict=True)
                    panel.plot(values, times, "o-", markersize=3, color=f"C{number}", label=row.kind.name)
                    stated = [times[-1] * (value / values[-1]) ** fitted.stated for value in values[-4:]]
                    panel.plot(values[-4:], stated, ":", color=f"C{number}")
        panel.set(xscale="log", yscale="log", xlabel=name)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("milliseconds")
    panels[0].legend(frameon=False, fontsize=7)
    figure.suptitle("Time of each kind of layer; dotted: the growth that Table 1 states", fontsize=10)
    figure.savefig(out, metadata={"Date": None})
