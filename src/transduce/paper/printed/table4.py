"""Text and plot of Table 4: the paper's parsers, ours beside them, F1 by sentence length and the two searches."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from transduce.paper.printed.cells import describe_trainings, format_mean, markdown_table
from transduce.paper.printed.plots import STYLES, panels
from transduce.paper.table4 import PUBLISHED, ParserComparison, ParserResult, lengths_of, searches_of


def as_text(comparison: ParserComparison) -> str:
    """Returns Table 4: our parsers with the paper's F1 beside them, the searches, and the paper's own table."""
    results = comparison.parsers
    trainings = [seed for result in results for seed in result.seeds]
    signatures = sorted({training.signature for training in trainings})
    return "\n\n".join(
        [
            markdown_table(
                ["parser", "what it is", "seeds", "F1", "95 % interval, first seed", "parameters", "the paper's F1"],
                [_cells(result) for result in results],
            ),
            f"F1 is of brackets, `{', '.join(signatures)}`; ± is the 95 % confidence interval of a mean over seeds, "
            "the interval in brackets that of the test sentences (bootstrap)."
            if signatures
            else "",
            f"The paper's F1 is of section 23 of the Wall Street Journal. `self-training` reads {comparison.raw_text} "
            f"beside the treebank.",
            *describe_trainings(trainings),
            *_searches(results),
            *_lengths(results),
            "The paper's table, section 23 of the Wall Street Journal:",
            markdown_table(["parser", "training", "F1"], [[name, how, f"{f1:.1f}"] for name, how, f1 in PUBLISHED]),
        ]
    )


def _cells(result: ParserResult) -> list[str]:
    """Returns the cells of a parser; those of one that was not trained are empty."""
    row, seeds = result.row, result.seeds
    published = "" if row.published is None else f"{row.published:.1f}"
    if not seeds:
        return [row.name, row.what, "0", "", "", "", published]
    interval = f"[{seeds[0].low:.2f}, {seeds[0].high:.2f}]"
    f1 = format_mean([seed.score for seed in seeds])
    return [row.name, row.what, str(len(seeds)), f1, interval, f"{seeds[0].parameters:,}", published]


def _searches(results: Sequence[ParserResult]) -> Iterator[str]:
    """Yields the table of the searches, of each parser's first seed."""
    rows = []
    for name, seeds in results:
        if not seeds or (score := searches_of(seeds[0])) is None:
            continue
        figures = (score.constrained_f1, score.unconstrained_f1, 100 * score.malformed, score.sentences_per_second)
        rows.append([name, str(score.sentences), *(f"{figure:.1f}" for figure in figures)])
    if rows:
        yield (
            "A search that continues only to trees over the words, and one without that constraint, whose outputs are "
            "repaired:"
        )
        head = ["parser", "sentences", "F1", "F1 without", "malformed without, %", "sentences a second"]
        yield markdown_table(head, rows)


def _lengths(results: Sequence[ParserResult]) -> Iterator[str]:
    """Yields the table of F1 by sentence length, of each parser's first seed."""
    rows, head = [], ["parser"]
    for name, seeds in results:
        if seeds and (bins := lengths_of(seeds[0])):
            head = ["parser", *(f"{_range(one.shortest, one.longest)} ({one.sentences})" for one in bins)]
            rows.append([name, *(f"{one.f1:.1f}" for one in bins)])
    if rows:
        yield "F1 by the words of the sentence, with the number of sentences:"
        yield markdown_table(head, rows)


def _range(shortest: int, longest: int) -> str:
    return f"{shortest}–{longest}" if longest < 1000 else f"{shortest} and more"


def draw(comparison: ParserComparison, path: Path) -> None:
    """Draws F1 by sentence length, and F1 of every parser."""
    results = comparison.parsers
    with panels(path, ["F1 by words of the sentence", "F1 of the test set"], height=3.8) as (lengths, totals):
        for number, (name, seeds) in enumerate(results):
            if not seeds:
                continue
            style = STYLES[number % len(STYLES)]
            if bins := lengths_of(seeds[0]):
                errors = [[one.f1 - one.low for one in bins], [one.high - one.f1 for one in bins]]
                places, f1, colour = range(len(bins)), [one.f1 for one in bins], f"C{number}"
                lengths.errorbar(places, f1, yerr=errors, fmt=style, capsize=3, label=name, color=colour)
                lengths.set_xticks(range(len(bins)), [_range(one.shortest, one.longest) for one in bins])
            mean = statistics.fmean(seed.score for seed in seeds)
            error = [[mean - seeds[0].low], [seeds[0].high - mean]] if len(seeds) == 1 else None
            totals.errorbar([number], [mean], yerr=error, fmt=style[0], capsize=3, color=f"C{number}")
        totals.set_xticks(range(len(results)), [result.name for result in results], rotation=20)
        if any(result.seeds for result in results):
            lengths.legend(frameon=False, loc="best", fontsize=7)
