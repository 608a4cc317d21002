"""Table 3, the paper's columns beside ours, and which of its orderings hold."""

import statistics
from collections.abc import Sequence

from transduce.model.flops import LENGTH
from transduce.paper.printed.cells import steps, table, trainings, with_spread, within
from transduce.paper.table3 import Ordering, VariationResult


def as_text(rows: Sequence[VariationResult], found: Sequence[Ordering]) -> str:
    """Table 3, the paper's columns beside ours, and which of its orderings hold."""
    head = ["row", "seeds", "perplexity", "accuracy", "BLEU", "parameters", "operations a word", "the paper's"]
    lines = []
    for row in rows:
        paper = "" if row.published is None else _paper_row(*row.published)
        if not row.found:
            lines.append([row.name, "0", "", "", "", "", f"{row.operations:,}", paper])
            continue
        accuracy = statistics.fmean(each.accuracy for each in row.found)
        lines.append(
            [
                row.name + steps(row.found),
                str(len(row.found)),
                with_spread(row.values("perplexity")),
                f"{accuracy:.1%}",
                with_spread(row.values("bleu")),
                f"{row.found[0].parameters:,}",
                f"{row.operations:,}",
                paper,
            ]
        )
    differences = [
        [each.row, each.metric, f"{each.published:+.2f}", within(each.found, each.within, signed=True), each.verdict]
        for each in found
    ]
    signatures = {each.signature for row in rows for each in row.found}
    return "\n\n".join(
        [
            table(head, lines),
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


def _paper_row(perplexity: float, bleu: float, parameters: float | None) -> str:
    """What the paper prints."""
    counted = "" if parameters is None else f", {parameters:g} million"
    return f"perplexity {perplexity:.2f}, BLEU {bleu:.1f}{counted}"
