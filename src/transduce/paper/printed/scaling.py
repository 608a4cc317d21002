"""Text and plot of the experiment on section 3.2.1."""

from collections.abc import Sequence
from pathlib import Path

from transduce.paper.printed.cells import (
    describe_trainings,
    format_optional,
    format_score,
    format_unfinished,
    markdown_table,
)
from transduce.paper.printed.plots import STYLES, panels
from transduce.paper.scaling import KINDS, SENTENCES, TOKENS, WIDTHS, CompatibilityResult, mean_perplexities

HEAD = [
    "compatibility",
    "d_k",
    "perplexity",
    "BLEU",
    "softmax's gradient, of unit q and k",
    "fresh",
    "trained",
    "ms",
    "MiB saved for backward",
]


def as_text(rows: Sequence[CompatibilityResult]) -> str:
    """Returns the table, a line for each compatibility and width, and the sentences that explain it."""
    widths, perplexities = mean_perplexities(rows)
    means = ", ".join(f"{KINDS[kind]} {value:.2f}" for kind, value in perplexities.items())
    trainings = [row.training for row in rows if row.training]
    signatures = sorted({training.signature for training in trainings})
    return "\n\n".join(
        [
            markdown_table(HEAD, [_cells(row) for row in rows]),
            f"BLEU is `{', '.join(signatures)}`." if signatures else "",
            *describe_trainings(trainings),
            f"Mean perplexity over d_k {', '.join(map(str, widths))}, where all were trained: {means}."
            if widths
            else "",
            "A softmax's gradient is the mean Frobenius norm of its Jacobian: at most 0.5, and 0 where all weight is "
            f"on one token. It is taken over {TOKENS} keys: of queries and keys whose components have variance 1, "
            "as the paper supposes; of the fresh model, whose initial weights (Glorot) are smaller the wider it is; "
            f"and of the trained model. Time and memory are of one attention, d_model {rows[0].d_model}, over "
            f"{SENTENCES} sentences of {TOKENS} tokens, forward and backward.",
        ]
    )


def _cells(row: CompatibilityResult) -> list[str]:
    """Returns the cells of a row, in the order of `HEAD`."""
    training = row.training
    return [
        KINDS[row.kind],
        str(row.d_k),
        f"{training.perplexity:.2f}{format_unfinished([training])}" if training else "",
        format_score(training) if training else "",
        f"{row.unit_gradient:.3f}",
        f"{row.fresh_gradient:.3f}",
        format_optional(row.trained_gradient, "{:.3f}"),
        f"{row.milliseconds:.1f}",
        f"{row.saved_bytes / 2**20:.1f}",
    ]


def draw(rows: Sequence[CompatibilityResult], path: Path) -> None:
    """Draws five panels against d_k."""
    from matplotlib.ticker import LogLocator

    titles = [
        "softmax's gradient, of unit q and k",
        "of the model's, trained (dotted: fresh)",
        "perplexity",
        "milliseconds",
        "MiB saved for backward",
    ]
    with panels(path, titles, columns=3, height=3.3) as (unit, gradient, perplexity, time, memory):
        for number, (kind, name) in enumerate(KINDS.items()):
            of_kind, colour, style = [row for row in rows if row.kind == kind], f"C{number}", STYLES[number]
            widths = [row.d_k for row in of_kind]
            trained = [(row, row.training) for row in of_kind if row.training]
            trained_widths = [row.d_k for row, _ in trained]
            perplexity.plot(trained_widths, [training.perplexity for _, training in trained], style, color=colour)
            unit.plot(widths, [row.unit_gradient for row in of_kind], style, color=colour)
            gradient.plot(widths, [row.fresh_gradient for row in of_kind], ":", color=colour)
            gradient.plot(trained_widths, [row.trained_gradient for row, _ in trained], style, color=colour)
            time.plot(widths, [row.milliseconds for row in of_kind], style, color=colour, label=name)
            memory.plot(widths, [row.saved_bytes / 2**20 for row in of_kind], style, color=colour)
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
