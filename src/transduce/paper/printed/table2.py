"""Text of Table 2: our systems, and the paper's rows."""

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator

from transduce.paper.printed.cells import (
    describe_device,
    describe_trainings,
    format_optional,
    format_score,
    markdown_table,
)
from transduce.paper.published_systems import PUBLISHED, Published
from transduce.paper.table2 import CHAIN_LENGTHS, SystemComparison, SystemResult
from transduce.paper.trials import TrialResult


def as_text(comparison: SystemComparison) -> str:
    """Returns the table of our systems, its explanations, and the paper's rows."""
    has_time = comparison.operations is not None  # at the paper's scale there are the steps of the presets alone
    head = [
        "system",
        "parameters",
        f"BLEU at {_first_budget(comparison)}",
        *(["BLEU at equal time"] if has_time else []),
        f"operations{' at equal time' if has_time else ''}, ours and by the paper's rule",
        f"minutes{', at equal arithmetic and at equal time' if has_time else ''}",
        "sequential products",
        "beside it in the paper",
    ]
    rates = _machine_rates(comparison)
    signatures = sorted({comparison.copying.signature, *(result.signature for result in _results(comparison))})
    parts = [
        markdown_table(head, [_cells(row, comparison.pair, rates, has_time) for row in comparison.rows]),
        *_describe_arithmetic(comparison),
        f"Copying the source: BLEU {comparison.copying.score:.2f}. Signature: `{'`, `'.join(signatures)}`.",
        "[ , ] is the 95 % confidence interval of a bootstrap over the test's sentences, without the variance between "
        "seeds. The paper's BLEU is of newstest2014, tokenised, compounds split (here `bleu-paper`); ours is "
        "sacreBLEU's, of this corpus's own test set. Parameters are those of the vocabulary above, without biases in "
        "attention's projections. The paper's rule for operations is time times the rate of the device, here that of "
        "a product of large float32 matrices, the median of these trainings.",
        *_describe_rates(comparison),
        "Sequential products: matrix products of which each needs the one before it, in reading n words a side once, "
        "layer after layer as it is computed here. Layers of a recurrence could overlap, and would have fewer.",
        *describe_trainings(_results(comparison)),
        *_describe_best(comparison),
        "The paper's rows (newstest2014):",
        markdown_table(
            ["system", "en-de", "en-fr", "operations en-de", "operations en-fr"],
            [_published_cells(published) for published in PUBLISHED],
        ),
    ]
    return "\n\n".join(parts)


def _results(comparison: SystemComparison) -> list[TrialResult]:
    """Returns the results of all rows at both budgets."""
    return [result for row in comparison.rows for result in (row.arithmetic, row.time) if result]


def _first_budget(comparison: SystemComparison) -> str:
    """Returns the name of the budget of the first column of BLEU."""
    return "the steps of its preset" if comparison.operations is None else "equal arithmetic"


def _describe_arithmetic(comparison: SystemComparison) -> Iterator[str]:
    """Yields the operations of each training where the scale makes them equal."""
    if comparison.operations is not None:
        yield f"Equal arithmetic is {comparison.operations:.1e} operations of training, by our count."


def _describe_rates(comparison: SystemComparison) -> Iterator[str]:
    """Yields the learning rates at the small scale; at the paper's, presets have them."""
    if comparison.scale == "small":
        peaks = {row.system.name: row.system.peak for row in comparison.rows}
        usual, _ = Counter(peaks.values()).most_common(1)[0]
        exceptions = (f"{peak:g} for `{name}`" for name, peak in peaks.items() if peak != usual)
        yield f"Peaks of the learning rate: {', '.join([*exceptions, f'{usual:g} for all others'])}."


def _machine_rates(comparison: SystemComparison) -> dict[str, float]:
    """Returns for each machine the median rate over its trainings: a single one may have shared the machine."""
    rates: dict[str, list[float]] = {}
    for result in _results(comparison):
        if result.rate:
            rates.setdefault(describe_device(result.environment), []).append(result.rate)
    return {machine: statistics.median(values) for machine, values in rates.items()}


def _cells(row: SystemResult, pair: str, rates: dict[str, float], has_time: bool) -> list[str]:
    """Returns the cells of a system, with those of equal time where there is such a budget."""
    last, name, chain = row.time or row.arithmetic, row.system.name, _chain_formula(*row.chains)
    beside = _published_bleu(row.system.published, pair) if row.system.published else row.system.remark
    if last is None:
        return [name, *[""] * (5 if has_time else 4), chain, beside]
    at_arithmetic = row.arithmetic if row.arithmetic and row.arithmetic.is_complete else None
    rate = rates.get(describe_device(last.environment))
    return [
        name,
        f"{last.parameters:,}",
        format_score(at_arithmetic) if at_arithmetic else "not reached",
        *([format_score(row.time) if row.time else ""] if has_time else []),
        f"{last.operations:.2g}" + (f", {last.seconds * rate:.2g}" if rate else ""),
        ", ".join(f"{result.seconds / 60:.1f}" for result in (at_arithmetic, row.time) if result),
        chain,
        beside,
    ]


def _published_bleu(name: str, pair: str) -> str:
    """Returns the name of a row of the paper, with its BLEU of a pair of languages if it has one."""
    (published,) = (row for row in PUBLISHED if row.name == name)
    return name + format_optional(published.bleu_de if pair == "en-de" else published.bleu_fr, ": {}")


def _published_cells(published: Published) -> list[str]:
    bleu = (format_optional(value, "{}") for value in (published.bleu_de, published.bleu_fr))
    operations = (format_optional(value, "{:.1e}") for value in (published.operations_de, published.operations_fr))
    return [published.name, *bleu, *operations]


def _chain_formula(at_shorter: int, at_longer: int) -> str:
    """Returns the length of a chain as a linear function of n, from its values at `CHAIN_LENGTHS`."""
    shorter, longer = CHAIN_LENGTHS
    slope = (at_longer - at_shorter) / (longer - shorter)
    constant = at_shorter - shorter * slope
    return f"{constant:.0f}" if not slope else f"{constant:.0f} + {slope:g} n"


def _describe_best(comparison: SystemComparison) -> Iterator[str]:
    """Yields the best system at each budget, and the ensemble."""
    arithmetic = [row.arithmetic for row in comparison.rows if row.arithmetic and row.arithmetic.is_complete]
    yield from _best(_first_budget(comparison), arithmetic)
    time = [row.time for row in comparison.rows if row.time]
    if len({describe_device(result.environment) for result in time}) > 1:
        yield "Equal time was not on equal machines: no best is named."
    else:
        yield from _best("equal time", time)
    if comparison.ensemble is not None:
        names, score = comparison.ensemble
        text = "not all of their weights are here"
        if score is not None:
            text = f"BLEU {score.score:.2f} [{score.low:.2f}, {score.high:.2f}]"
        yield f"Ensemble of {', '.join(names)}, the best of these on the same test set: {text}."


def _best(budget: str, results: Iterable[TrialResult]) -> Iterator[str]:
    if best := max(results, key=lambda result: result.score, default=None):
        yield f"Best at {budget}: {best.trial}, BLEU {format_score(best)}."
