"""Scores of translations against references, each with its signature, and the paired test between systems."""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sacrebleu.significance import PairedTest, Result

from transduce.measure.metrics import Metric, metric_named

__all__ = ["Comparison", "Difference", "Score", "compare", "scores"]

_log = logging.getLogger(__name__)


class Score(NamedTuple):
    """A score of 0 to 100 (TER: 0 is best, no bound), what was measured, and its 95 % bootstrap interval."""

    score: float
    signature: str
    low: float | None
    high: float | None


class Difference(NamedTuple):
    """A system's score, how far it is above the baseline's, and the p-value of that, which is sacreBLEU's.

    Of the resamples' differences without their sign, the share that lies further above their mean than the whole
    difference: for clear differences half of a two-sided p-value.
    """

    score: Score
    delta: float
    p: float


class Comparison(NamedTuple):
    """The baseline's score, and that of every other system beside it, in their order."""

    baseline: Score
    others: tuple[Difference, ...]


def scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    *,
    language: str | None = None,
    tokenize: str | None = None,
    bootstrap: int | None = None,
) -> dict[str, Score]:
    """`outputs`, a line a sentence, scored by each of `metrics` against one or several streams of references.

    `language` is that of the outputs, `tokenize` the tokeniser of `bleu` (13a), `bootstrap` how many resamples
    give the interval (sacreBLEU's, with its fixed seed; None: no interval). A `ValueError` gives the counts
    where they differ, and the choices where a name is unknown.
    """
    chosen = {name: metric_named(name, language=language, tokenize=tokenize) for name in metrics}
    _check([outputs], references, bootstrap)
    _warn_of_tokenised_text([outputs], chosen, tokenize)
    if bootstrap is None:
        return {name: _score(metric, outputs, references) for name, metric in chosen.items()}
    return {name: _compare(metric, [outputs], references, bootstrap).baseline for name, metric in chosen.items()}


def compare(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    *,
    language: str | None = None,
    tokenize: str | None = None,
    bootstrap: int = 1000,
) -> dict[str, Comparison]:
    """The first of `systems` as the baseline, and each other against it by paired bootstrap (Koehn 2004).

    The rest as in `scores`.
    """
    chosen = {name: metric_named(name, language=language, tokenize=tokenize) for name in metrics}
    _check(systems, references, bootstrap)
    _warn_of_tokenised_text(systems, chosen, tokenize)
    return {name: _compare(metric, systems, references, bootstrap) for name, metric in chosen.items()}


def _check(systems: Sequence[Sequence[str]], references: Sequence[Sequence[str]], bootstrap: int | None) -> None:
    """Refuses what cannot be scored, before any time is spent on it."""
    if not references:
        raise ValueError("there is no reference to measure against; give one or several")
    for system, output in enumerate(systems, start=1):
        for number, reference in enumerate(references, start=1):
            if len(output) != len(reference):
                raise ValueError(
                    f"output {system} has {len(output):,} lines but reference {number} has {len(reference):,}; "
                    "line n of the one must say what line n of the other says"
                )
        if not output:
            raise ValueError("the output and its references have no lines; there is nothing to measure")
    if bootstrap is not None and bootstrap < 2:
        raise ValueError(f"bootstrap is {bootstrap}: an interval needs at least 2 resamples, usually 1,000")


def _warn_of_tokenised_text(systems: Sequence[Sequence[str]], names: Iterable[str], tokenize: str | None) -> None:
    """Says so where `bleu` would tokenise what has been tokenised before, by sacreBLEU's rule of thumb."""
    if "bleu" not in names or tokenize == "none":
        return
    for output in systems:
        count = sum(line.endswith(" .") for line in output)
        if count >= 100:
            _log.warning(
                "warning: %s lines of the output end in ' .', as tokenised text does; "
                "bleu means detokenised text and will not be comparable",
                f"{count:,}",
            )


def _score(metric: Metric, output: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """The score alone."""
    found = metric.counter.corpus_score(metric.outputs(output), [metric.references(lines) for lines in references])
    return Score(found.score, str(metric.counter.get_signature()), None, None)


def _compare(
    metric: Metric, systems: Sequence[Sequence[str]], references: Sequence[Sequence[str]], bootstrap: int
) -> Comparison:
    """Every system's score and interval, and what separates it from the first."""
    named = [(str(number), metric.outputs(lines)) for number, lines in enumerate(systems)]
    prepared = [metric.references(lines) for lines in references]
    signatures, found = PairedTest(named, {"": metric.counter}, prepared, "bs", n_samples=bootstrap)()
    (name,) = signatures
    first, *others = (result for result in found[name] if isinstance(result, Result))
    baseline = _with_interval(first, str(signatures[name]))
    return Comparison(baseline, tuple(_difference(other, baseline) for other in others))


def _with_interval(found: Result, signature: str) -> Score:
    assert found.mean is not None
    assert found.ci is not None
    return Score(found.score, signature, float(found.mean - found.ci), float(found.mean + found.ci))


def _difference(found: Result, baseline: Score) -> Difference:
    delta = found.score - baseline.score
    # For equal systems sacreBLEU's would be the least there is: no difference is ever beyond the one observed.
    p = found.p_value if delta else 1.0
    assert p is not None
    return Difference(_with_interval(found, baseline.signature), delta, p)
