"""Table 1, what is stated beside what was found."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from transduce.paper.printed.cells import table
from transduce.paper.printed.plots import STYLES, panels
from transduce.paper.table1 import MIDDLE, OCTAVES, SENTENCES, WIDTHS, Claims, LayerCosts, exponent_below


def as_text(rows: Sequence[LayerCosts], found: Claims) -> str:
    """Table 1, what is stated beside what was found."""
    head = ["layer", "operations, stated", "exponents counted", "exponents of time", "sequential, stated", "found"]
    lines = []
    for row in rows:
        counted = ", ".join(f"{each.variable}^{each.counted:.2f}" for each in row.fitted)
        timed = ", ".join(f"{each.variable}^{each.timed:.2f}" for each in row.fitted)
        found_there = f"{_each(products for _, products in row.sequential)} at n {_each(n for n, _ in row.sequential)}"
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
    crossing = [
        [str(d), f"{each.counted:,.0f}", "not before 8,192" if each.timed is None else f"{each.timed:,.0f}"]
        for d, each in found.crossover.items()
    ]
    costs = [[str(k), f"{ratio:.2f}"] for k, ratio in found.recurrences.items()]
    return "\n\n".join(
        [
            table(head, lines),
            _how_fitted(rows),
            "Longest path, in mixing operations on the shortest way between two positions:",
            table(["layer", "stated", "n", "k", "r", "found"], paths),
            "From which length n self-attention costs more than recurrence, one sentence:",
            table(["d", "by operations", "by time"], crossing),
            "Operations of one convolution, in recurrences:",
            table(["k", "recurrences"], costs),
            "Operations of a separable convolution of k = n, by those of self-attention with a position-wise network "
            "(the same at every n and d: they grow alike):",
            table(["n", "d", "ratio"], [[str(n), str(d), f"{ratio:.2f}"] for (n, d), ratio in found.separable.items()]),
        ]
    )


def _how_fitted(rows: Sequence[LayerCosts]) -> str:
    """Over which values time's exponents were fitted, and what they are over widths that models have."""
    ranges, narrow = {}, []
    for row in rows:
        for each in row.fitted:
            values = [value for value, _, _ in each.points][-OCTAVES - 1 :]
            ranges[each.variable] = f"{each.variable} {values[0]:,} to {values[-1]:,}"
            if each.variable == "d":
                narrow.append(f"{row.kind.name} {exponent_below(each, WIDTHS[-1]):.2f}")
    return (
        f"Time's exponents are fitted over the largest octaves: {', '.join(ranges.values())}; of one sentence, "
        f"for d of {SENTENCES['d']} sentences of {MIDDLE['d'].n} words. Over the last octaves up to d {WIDTHS[-1]:,}: "
        f"{', '.join(narrow)}."
    )


def draw(rows: Sequence[LayerCosts], path: Path) -> None:
    """Milliseconds against each variable, both logarithmic, with the stated slope beside."""
    titles = {"n": "length n", "d": "width d", "k": "kernel k", "r": "neighbours r"}
    with panels(path, [f"time against {title}" for title in titles.values()], height=4, group=True) as axes:
        for panel, variable in zip(axes, titles, strict=True):
            ticks: tuple[int, ...] = ()
            for number, row in enumerate(rows):
                for fitted in row.fitted:
                    if fitted.variable == variable:
                        values, _, times = zip(*fitted.points, strict=True)
                        ticks, style = values, STYLES[number % len(STYLES)]
                        panel.plot(values, times, style, color=f"C{number}", label=row.kind.name)
                        last = list(zip(values, times, strict=True))[-4:]
                        stated = [last[-1][1] * (value / last[-1][0]) ** fitted.stated for value, _ in last]
                        panel.plot([value for value, _ in last], stated, ":", color="black", linewidth=0.8)
            panel.set(xscale="log", yscale="log", xlabel=f"{titles[variable]} (dotted: the growth that is stated)")
            panel.set_xticks(ticks[::2], [f"{value:,}" for value in ticks[::2]])
            panel.minorticks_off()
        axes[0].set_ylabel("milliseconds")
        axes[0].legend(frameon=False, fontsize=7)


def _each(values: Iterable[int]) -> str:
    """Numbers one after the other; one alone where all are alike."""
    return ", ".join(map(str, dict.fromkeys(values)))
