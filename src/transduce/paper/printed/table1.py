"""Text and plot of Table 1: the paper's statements beside the measurements."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from transduce.paper.printed.cells import markdown_table
from transduce.paper.printed.plots import STYLES, panels
from transduce.paper.table1 import (
    GRID,
    MIDDLE,
    OCTAVES,
    SENTENCES,
    WIDTHS,
    LayerCosts,
    LayerMeasurements,
    exponent_below,
)

HEAD = ["layer", "operations, stated", "exponents counted", "exponents of time", "sequential, stated", "measured"]


def as_text(measurements: LayerMeasurements) -> str:
    """Returns the tables of exponents and paths, and those of the claims of section 4."""
    rows, claims = measurements
    crossovers = [
        [str(d), f"{at.counted:,.0f}", f"not before {GRID['n'][-1]:,}" if at.timed is None else f"{at.timed:,.0f}"]
        for d, at in claims.crossover.items()
    ]
    recurrences = [[str(k), f"{ratio:.2f}"] for k, ratio in claims.recurrences.items()]
    separable = [[str(n), str(d), f"{ratio:.2f}"] for n, d, ratio in claims.separable]
    return "\n\n".join(
        [
            markdown_table(HEAD, [_cells(row) for row in rows]),
            _describe_fits(rows),
            "Longest path between two positions, in mixing operations:",
            markdown_table(["layer", "stated", "n", "k", "r", "measured"], [*_path_rows(rows)]),
            "Length n from which self-attention costs more than recurrence, one sentence:",
            markdown_table(["d", "by operations", "by time"], crossovers),
            "Operations of one convolution, in recurrences:",
            markdown_table(["k", "recurrences"], recurrences),
            "Operations of a separable convolution of k = n, divided by those of self-attention with a position-wise "
            "network of d_ff = d (the ratio does not depend on n and d):",
            markdown_table(["n", "d", "ratio"], separable),
        ]
    )


def _cells(row: LayerCosts) -> list[str]:
    """Returns the cells of a row, in the order of `HEAD`."""
    counted = ", ".join(f"{fit.variable}^{fit.counted:.2f}" for fit in row.exponents)
    timed = ", ".join(f"{fit.variable}^{fit.timed:.2f}" for fit in row.exponents)
    lengths, products = zip(*row.sequential, strict=True)
    sequential = f"{_join_distinct(products)} at n {_join_distinct(lengths)}"
    return [row.kind.name, row.kind.complexity, counted, timed, row.kind.sequential, sequential]


def _path_rows(rows: Sequence[LayerCosts]) -> Iterable[list[str]]:
    """Yields a row for each measured path; k and r only where the layer depends on them."""
    for row in rows:
        for shape, length in row.paths:
            sizes = [str(getattr(shape, name)) if name in row.kind.powers else "" for name in ("k", "r")]
            yield [row.kind.name, row.kind.path, str(shape.n), *sizes, "none" if length is None else str(length)]


def _describe_fits(rows: Sequence[LayerCosts]) -> str:
    """Returns the values over which the exponents of time are fitted, and the exponents over widths of usual models."""
    ranges, usual = {}, []
    for row in rows:
        for fit in row.exponents:
            values = [value for value, _, _ in fit.points][-OCTAVES - 1 :]
            ranges[fit.variable] = f"{fit.variable} {values[0]:,} to {values[-1]:,}"
            if fit.variable == "d":
                usual.append(f"{row.kind.name} {exponent_below(fit, WIDTHS[-1]):.2f}")
    return (
        f"Time's exponents are fitted over the largest octaves: {', '.join(ranges.values())}; of one sentence, "
        f"for d of {SENTENCES['d']} sentences of {MIDDLE['d'].n} tokens. Over the last octaves up to d {WIDTHS[-1]:,}: "
        f"{', '.join(usual)}."
    )


def draw(measurements: LayerMeasurements, path: Path) -> None:
    """Draws milliseconds against each variable, both logarithmic, with the stated slope."""
    titles = {"n": "length n", "d": "width d", "k": "kernel k", "r": "neighbours r"}
    with panels(path, [f"time against {title}" for title in titles.values()], height=4, share_y=True) as axes:
        for panel, variable in zip(axes, titles, strict=True):
            ticks: tuple[int, ...] = ()
            for number, row in enumerate(measurements.layers):
                for fit in row.exponents:
                    if fit.variable == variable:
                        values, _, times = zip(*fit.points, strict=True)
                        ticks, style = values, STYLES[number % len(STYLES)]
                        panel.plot(values, times, style, color=f"C{number}", label=row.kind.name)
                        last = list(zip(values, times, strict=True))[-4:]
                        stated = [last[-1][1] * (value / last[-1][0]) ** fit.stated for value, _ in last]
                        panel.plot([value for value, _ in last], stated, ":", color="black", linewidth=0.8)
            panel.set(xscale="log", yscale="log", xlabel=f"{titles[variable]} (dotted: the stated growth)")
            panel.set_xticks(ticks[::2], [f"{value:,}" for value in ticks[::2]])
            panel.minorticks_off()
        axes[0].set_ylabel("milliseconds")
        axes[0].legend(frameon=False, fontsize=7)


def _join_distinct(values: Iterable[int]) -> str:
    """Returns the distinct values, separated by commas."""
    return ", ".join(map(str, dict.fromkeys(values)))
