"""Table 3, the paper's columns beside ours, and which of its orderings hold."""

import statistics
from collections.abc import Sequence

from transduce.model.flops import LENGTH
from transduce.paper.printed.cells import steps, table, trainings, with_spread, within
from transduce.paper.table3 import Ordering, VariationResult

HEAD = ["row", "seeds", "perplexity", "accuracy", "BLEU", "parameters", "operations a word", "the paper's"]


def as_text(rows: Sequence[VariationResult], found: Sequence[Ordering]) -> str:
    """Returns Table 3 with the paper's columns beside ours, and which of its orderings hold."""
    differences = [
        [each.row, each.metric, f"{each.published:+.2f}", within(each.found, each.within, signed=True), each.verdict]
        for each in found
    ]
    signatures = {each.signature for row in rows for each in row.found}
    return "\n\n".join(
        [
            table(HEAD, [_cells(row) for row in rows]),
            f"BLEU is `{', '.join(sorted(signatures))}`; ± is the 95 % interval of a mean." if signatures else "",
            "The paper's figures are of newstest2013, its BLEU tokenised, compounds split (here `bleu-paper`); ours "
            "are of this corpus's own validation set, BLEU as sacreBLEU has it. Parameters are those of the vocabulary "
            "above, without biases in attention's projections but in `released-2017`; operations are of reading a word "
            f"and writing one, in sentences of {LENGTH}.",
            *trainings(each for row in rows for each in row.found),
            "Each row against base, in the paper and here, with the 95 % interval (Student's t; a row with one seed is "
            "taken to be as noisy as base):",
            table(["row", "measure", "the paper's difference", "ours", "the order"], differences),
        ]
    )


def _cells(row: VariationResult) -> list[str]:
    """Returns the cells of a row, in the order of `HEAD`; a row without a result has no figures but its operations."""
    paper = "" if row.published is None else _paper_row(*row.published)
    if not row.found:
        return [row.name, "0", "", "", "", "", f"{row.operations:,}", paper]
    return [
        row.name + steps(row.found),
        str(len(row.found)),
        with_spread(row.values("perplexity")),
        f"{statistics.fmean(each.accuracy for each in row.found):.1%}",
        with_spread(row.values("bleu")),
        f"{row.found[0].parameters:,}",
        f"{row.operations:,}",
        paper,
    ]


def _paper_row(perplexity: float, bleu: float, parameters: float | None) -> str:
    """Returns the figures that the paper prints."""
    counted = "" if parameters is None else f", {parameters:g} million"
    return f"perplexity {perplexity:.2f}, BLEU {bleu:.1f}{counted}"
