"""Section 3.2.1 in numbers and curves."""

from collections.abc import Sequence
from pathlib import Path

from transduce.paper.printed.cells import bleu, steps, table, trainings
from transduce.paper.printed.plots import STYLES, panels
from transduce.paper.scaling import KINDS, SENTENCES, WIDTHS, WORDS, CompatibilityResult, summary

HEAD = [
    "compatibility",
    "d_k",
    "perplexity",
    "BLEU",
    "softmax's gradient, of unit q and k",
    "fresh",
    "trained",
    "ms",
    "MiB kept",
]


def as_text(rows: Sequence[CompatibilityResult]) -> str:
    """Returns the table, a line for each compatibility and width, and the sentences that explain it."""
    widths, values = summary(rows)
    means = ", ".join(f"{KINDS[kind]} {value:.2f}" for kind, value in values.items())
    at = ", ".join(map(str, widths))
    signatures = sorted({row.found.signature for row in rows if row.found})
    return "\n\n".join(
        [
            table(HEAD, [_cells(row) for row in rows]),
            f"BLEU is `{', '.join(signatures)}`." if signatures else "",
            *trainings(row.found for row in rows if row.found),
            f"Mean perplexity over d_k {at}, where all were trained: {means}." if widths else "",
            "A softmax's gradient is the mean Frobenius norm of its Jacobian: at most 0.5, and 0 where all weight is "
            f"on one word. It is taken over {WORDS} keys: where components of queries and keys have the variance 1, "
            "as the paper supposes, in the fresh model, whose bound (Glorot's) makes them smaller the wider they are, "
            f"and in the trained one. Time and memory are of one attention, {rows[0].width} wide, over {SENTENCES} "
            f"sentences of {WORDS} words, forward and backward.",
        ]
    )


def _cells(row: CompatibilityResult) -> list[str]:
    """Returns the cells of a row, in the order of `HEAD`."""
    return [
        KINDS[row.kind],
        str(row.d_k),
        f"{row.found.perplexity:.2f}{steps([row.found])}" if row.found else "",
        bleu(row.found) if row.found else "",
        f"{row.unit:.3f}",
        f"{row.fresh:.3f}",
        f"{row.trained:.3f}" if row.trained is not None else "",
        f"{row.milliseconds:.1f}",
        f"{row.kept / 2**20:.1f}",
    ]


def draw(rows: Sequence[CompatibilityResult], path: Path) -> None:
    """Five panels against d_k."""
    from matplotlib.ticker import LogLocator

    titles = [
        "softmax's gradient, of unit q and k",
        "of the model's, trained (dotted: fresh)",
        "perplexity",
        "milliseconds",
        "MiB kept for the gradient",
    ]
    with panels(path, titles, columns=3, height=3.3) as (unit, gradient, perplexity, time, memory):
        for number, (kind, name) in enumerate(KINDS.items()):
            mine, colour, style = [row for row in rows if row.kind == kind], f"C{number}", STYLES[number]
            known = [row for row in mine if row.found]
            perplexity.plot(
                [row.d_k for row in known], [row.found.perplexity for row in known if row.found], style, color=colour
            )
            unit.plot([row.d_k for row in mine], [row.unit for row in mine], style, color=colour)
            gradient.plot([row.d_k for row in mine], [row.fresh for row in mine], ":", color=colour)
            gradient.plot([row.d_k for row in known], [row.trained for row in known], style, color=colour)
            time.plot([row.d_k for row in mine], [row.milliseconds for row in mine], style, color=colour, label=name)
            memory.plot([row.d_k for row in mine], [row.kept / 2**20 for row in mine], style, color=colour)
        for panel in (time, memory):
            panel.set_yscale("log")
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:g}")
        for panel in (unit, gradient, perplexity, time, memory):
            panel.set(xscale="log", xlabel="d_k", xticks=WIDTHS, xticklabels=[str(width) for width in WIDTHS])
            panel.minorticks_off()
        for panel in (unit, gradient):
            panel.set_ylim(0, 0.4)
        time.legend(frameon=False)
