"""Table 2, the published rows beside ours."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping

from transduce.paper.printed.cells import bleu, or_nothing, table, trained_on, trainings
from transduce.paper.systems import PUBLISHED, Published
from transduce.paper.table2 import WAITED, SystemComparison, SystemResult


def as_text(found: SystemComparison) -> str:
    """Table 2, the published rows beside ours."""
    published = {each.name: each for each in PUBLISHED}
    head = [
        "system",
        "parameters",
        f"BLEU at {_first_budget(found)}",
        "BLEU at equal time",
        "operations at equal time, ours and by the paper's rule",
        "minutes, at equal arithmetic and at equal time",
        "waits",
        "beside it in the paper",
    ]
    rates = _rates(found)
    lines = [_system(row, published, found.at.pair, rates) for row in found.rows]
    beside = [
        [each.name, *(or_nothing(value, "{}") for value in (each.bleu_de, each.bleu_fr)), *_costs(each)]
        for each in PUBLISHED
    ]
    parts = [
        table(head, lines),
        *_arithmetic(found),
        f"Copying the source: BLEU {found.copying.score:.2f}. Signature: `{'`, `'.join(_signatures(found))}`.",
        "[ , ] is the 95 % interval of a bootstrap over the test's sentences; what another seed would change is not in "
        "it. The paper's BLEU is of newstest2014, tokenised, compounds split (here `bleu-paper`); ours is sacreBLEU's, "
        "of this corpus's own test set. Parameters are those of the vocabulary above, without biases in attention's "
        "projections. The paper's rule for operations is time times the rate of the device, here that of a product of "
        "large float32 matrices, the median of these trainings.",
        *_settings(found),
        "What waits: products of matrices of which each needs the one before it, in reading n words a side once, layer "
        "after layer as it is computed here. Layers of a recurrence could overlap, and would wait less.",
        *trainings(each for row in found.rows for each in (row.arithmetic, row.time) if each),
        *_verdicts(found),
        "The paper's rows (newstest2014):",
        table(["system", "en-de", "en-fr", "operations en-de", "operations en-fr"], beside),
    ]
    return "\n\n".join(parts)


def _first_budget(found: SystemComparison) -> str:
    """Names the budget of the first column of BLEU."""
    return "the steps of its preset" if found.at.operations is None else "equal arithmetic"


def _arithmetic(found: SystemComparison) -> Iterable[str]:
    """Says how much arithmetic every system has, where the scale makes it equal."""
    if found.at.operations is not None:
        yield f"Equal arithmetic is {found.at.operations:.1e} operations of training, by our count."


def _settings(found: SystemComparison) -> Iterable[str]:
    """What of the small scale's recipes is not the same for all; at the paper's each has its preset's."""
    if found.at.name == "small":
        usual, _ = Counter(row.system.peak for row in found.rows).most_common(1)[0]
        others = (f"{row.system.peak:g} for `{row.system.name}`" for row in found.rows if row.system.peak != usual)
        yield f"Peaks of the learning rate: {', '.join([*others, f'{usual:g} for all others'])}."


def _rates(found: SystemComparison) -> dict[str, float]:
    """Operations a second of each machine, as all trainings on it found them; one alone may have had neighbours."""
    known: dict[str, list[float]] = {}
    for row in found.rows:
        for each in (row.arithmetic, row.time):
            if each and each.rate:
                known.setdefault(trained_on(each.environment), []).append(each.rate)
    return {machine: statistics.median(rates) for machine, rates in known.items()}


def _system(row: SystemResult, published: Mapping[str, Published], pair: str, rates: Mapping[str, float]) -> list[str]:
    """A line of Table 2."""
    last, name = row.time or row.arithmetic, row.system.published
    beside = f"{name}{_printed(published[name], pair)}" if name else row.system.beside
    waits = _line_through(*row.waits)
    if last is None:
        return [row.system.name, "", "", "", "", "", waits, beside]
    equal = row.arithmetic if row.arithmetic and row.arithmetic.reached else None
    rate = rates.get(trained_on(last.environment))
    return [
        row.system.name,
        f"{last.parameters:,}",
        bleu(equal) if equal else "not reached",
        bleu(row.time) if row.time else "",
        f"{last.operations:.2g}" + (f", {last.seconds * rate:.2g}" if rate else ""),
        ", ".join(f"{each.seconds / 60:.1f}" for each in (equal, row.time) if each),
        waits,
        beside,
    ]


def _signatures(found: SystemComparison) -> list[str]:
    """What BLEU was, of all rows."""
    scored = [each for row in found.rows for each in (row.arithmetic, row.time) if each]
    return sorted({found.copying.signature, *(each.signature for each in scored)})


def _printed(each: Published, pair: str) -> str:
    """The paper's BLEU of a pair of languages, where it has one."""
    return or_nothing(each.bleu_de if pair == "en-de" else each.bleu_fr, ": {}")


def _line_through(at_fewer: int, at_more: int) -> str:
    """What grows with the sentence and what does not."""
    fewer, more = WAITED
    slope = (at_more - at_fewer) / (more - fewer)
    fixed = at_fewer - fewer * slope
    return f"{fixed:.0f}" if not slope else f"{fixed:.0f} + {slope:g} n"


def _verdicts(found: SystemComparison) -> Iterable[str]:
    """Which system is the best at either, and the ensemble."""
    for what, results in (
        (_first_budget(found), [row.arithmetic for row in found.rows]),
        ("equal time", [row.time for row in found.rows]),
    ):
        known = [each for each in results if each and (what == "equal time" or each.reached)]
        if what == "equal time" and len({trained_on(each.environment) for each in known}) > 1:
            yield "Equal time was not on equal machines: no best is named."
        elif known:
            best = max(known, key=lambda each: each.bleu)
            yield f"Best at {what}: {best.trial}, BLEU {bleu(best)}."
    if found.ensemble is not None:
        names, score = found.ensemble
        shown = "not all of their weights are here"
        if score is not None:
            shown = f"BLEU {score.score:.2f} [{score.low:.2f}, {score.high:.2f}]"
        yield f"Ensemble of {', '.join(names)}, the best of these on the same test set: {shown}."


def _costs(each: Published) -> list[str]:
    """The paper's operations."""
    return [or_nothing(value, "{:.1e}") for value in (each.operations_de, each.operations_fr)]
