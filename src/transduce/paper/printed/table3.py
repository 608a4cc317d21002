"""Text of Table 3: the paper's columns beside ours, and the orderings that hold."""

import statistics
from collections.abc import Sequence

from transduce.model.flops import LENGTH
from transduce.paper.printed.cells import (
    describe_trainings,
    format_interval,
    format_mean,
    format_unfinished,
    markdown_table,
)
from transduce.paper.table3 import VariationResult, compare_with_base

HEAD = ["row", "seeds", "perplexity", "accuracy", "BLEU", "parameters", "operations a token", "the paper's"]


def as_text(rows: Sequence[VariationResult]) -> str:
    """Returns Table 3 with the paper's columns beside ours, and which of its orderings hold."""
    differences = [
        [
            ordering.row,
            ordering.metric,
            f"{ordering.published:+.2f}",
            format_interval(ordering.measured, ordering.half_width, signed=True),
            ordering.verdict,
        ]
        for ordering in compare_with_base(rows)
    ]
    trainings = [result for row in rows for result in row.seeds]
    signatures = sorted({result.signature for result in trainings})
    return "\n\n".join(
        [
            markdown_table(HEAD, [_cells(row) for row in rows]),
            f"BLEU is `{', '.join(signatures)}`; ± is the 95 % confidence interval of a mean." if signatures else "",
            "The paper's figures are of newstest2013, its BLEU tokenised, compounds split (here `bleu-paper`); ours "
            "are of this corpus's own validation set, BLEU as sacreBLEU has it. Parameters are those of the vocabulary "
            "above, without biases in attention's projections but in `released-2017`; operations are of the forward "
            f"pass, of one source token and one target token, in sentences of {LENGTH}.",
            *describe_trainings(trainings),
            "Each row against base, in the paper and here, with the 95 % confidence interval (Student's t; a row with "
            "one seed is taken to have the variance of base):",
            markdown_table(["row", "metric", "the paper's difference", "ours", "the order"], differences),
        ]
    )


def _cells(row: VariationResult) -> list[str]:
    """Returns the cells of a row, in the order of `HEAD`; a row without a result has no figures but its operations."""
    paper = "" if row.published is None else _published_figures(*row.published)
    if not row.seeds:
        return [row.name, "0", "", "", "", "", f"{row.operations:,}", paper]
    return [
        row.name + format_unfinished(row.seeds),
        str(len(row.seeds)),
        format_mean(row.values("perplexity")),
        f"{statistics.fmean(result.accuracy for result in row.seeds):.1%}",
        format_mean(row.values("bleu")),
        f"{row.seeds[0].parameters:,}",
        f"{row.operations:,}",
        paper,
    ]


def _published_figures(perplexity: float, bleu: float, parameters: float | None) -> str:
    """Returns the figures that the paper prints."""
    counted = "" if parameters is None else f", {parameters:g} million"
    return f"perplexity {perplexity:.2f}, BLEU {bleu:.1f}{counted}"
