"""Scores translations against references, and compares systems with the paired bootstrap test."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.significance import PairedTest, Result

from transduce.measure.bootstrap import check_resamples
from transduce.measure.metrics import Metric, metric_named

_log = logging.getLogger(__name__)


class Score(NamedTuple):
    """A score with its signature and its 95 % bootstrap confidence interval.

    Scores range from 0 to 100, except for TER, where 0 is best and there is no upper bound. `low` and `high` are None
    if no bootstrap was run. The interval is computed as in sacreBLEU: the mean of the resamples ± half of the distance
    between the quantiles. It is then limited to the range of the metric, and extended if it does not contain the score.
    """

    score: float
    signature: str
    low: float | None
    high: float | None


class Difference(NamedTuple):
    """A system's score, its difference from the baseline, and sacreBLEU's p-value of this difference.

    The p-value is the share of resamples in which the absolute difference exceeds the mean absolute difference by more
    than the observed difference. For a clear difference, this is half of a two-sided p-value. The p-value is None if
    there is only one sentence, because all resamples are then equal.
    """

    score: Score
    delta: float
    p: float | None


class Comparison(NamedTuple):
    """The baseline's score, and the differences of the other systems from it, in the order of the systems."""

    baseline: Score
    differences: tuple[Difference, ...]


def scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    *,
    language: str | None = None,
    tokenize: str | None = None,
    bootstrap: int | None = None,
) -> dict[str, Score]:
    """Scores `outputs`, one line per sentence, with each of `metrics` against one or more references.

    `language` is the language of the outputs, and `tokenize` overrides the tokeniser of `bleu`, which is 13a for most
    languages. `bootstrap` is the number of resamples for the confidence interval, which are drawn with sacreBLEU's
    fixed seed; if it is None, no interval is computed.

    Raises ValueError if the numbers of lines differ, or if a metric or the tokeniser is unknown. Raises TypeError if
    `metrics` or a reference is a str.
    """
    compared = compare([outputs], references, metrics, language=language, tokenize=tokenize, bootstrap=bootstrap)
    return {name: comparison.baseline for name, comparison in compared.items()}


def compare(
    systems: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    *,
    language: str | None = None,
    tokenize: str | None = None,
    bootstrap: int | None = 1000,
) -> dict[str, Comparison]:
    """Compares the outputs of `systems` with each of `metrics`, using a paired bootstrap test (Koehn 2004).

    The first system is the baseline. If `bootstrap` is None, there must be only one system. The other arguments are
    those of `scores`.
    """
    if isinstance(metrics, str):
        raise TypeError(f"`metrics` is a str: give a list of names, [{metrics!r}]")
    if any(isinstance(reference, str) for reference in references):
        raise TypeError("`references` is a list of str: give a list of lists, [references], one for each reference")
    chosen = {name: metric_named(name, language=language, tokenize=tokenize) for name in metrics}
    if not references:
        raise ValueError("there is no reference to measure against; give one or several")
    for system, output in enumerate(systems, start=1):
        for number, reference in enumerate(references, start=1):
            if len(output) != len(reference):
                raise ValueError(
                    f"output {system} has {len(output):,} lines but reference {number} has {len(reference):,}; "
                    "line n of the reference must be the translation that line n of the output should be"
                )
        if not output:
            raise ValueError("the output and its references have no lines; there is nothing to measure")
    check_resamples(bootstrap)
    for output in systems if "bleu" in metrics and tokenize != "none" else ():
        # Warns about text that seems to be tokenised already: by sacreBLEU's rule, if 100 lines end in " .".
        count = sum(line.endswith(" .") for line in output)
        if count >= 100:
            _log.warning(
                "warning: %s lines of the output end in ' .', as tokenised text does; "
                "bleu is defined on detokenised text, so that this score will not be comparable",
                f"{count:,}",
            )

    return {name: _compare(metric, systems, references, bootstrap) for name, metric in chosen.items()}


def _compare(
    metric: Metric, systems: Sequence[Sequence[str]], references: Sequence[Sequence[str]], bootstrap: int | None
) -> Comparison:
    """Returns the first system's score and the differences of the other systems from it, with confidence intervals."""
    if bootstrap is None:
        (output,) = systems
        score = metric.scorer.corpus_score(metric.outputs(output), [metric.references(lines) for lines in references])
        return Comparison(Score(score.score, str(metric.scorer.get_signature()), None, None), ())
    outputs = [(str(number), metric.outputs(lines)) for number, lines in enumerate(systems)]
    prepared = [metric.references(lines) for lines in references]
    signatures, results = PairedTest(outputs, {"": metric.scorer}, prepared, "bs", n_samples=bootstrap)()
    (name,) = signatures
    first, *rivals = (result for result in results[name] if isinstance(result, Result))
    baseline = _score_with_interval(first, str(signatures[name]), metric.highest)
    differences = []
    for result in rivals:
        score = _score_with_interval(result, baseline.signature, metric.highest)
        # sacreBLEU gives equal systems its smallest p-value, because no resampled difference exceeds the observed one.
        delta = score.score - baseline.score
        p = None if len(systems[0]) == 1 else result.p_value if delta else 1.0
        differences.append(Difference(score, delta, p))
    return Comparison(baseline, tuple(differences))


def _score_with_interval(result: Result, signature: str, highest: float) -> Score:
    assert result.mean is not None
    assert result.ci is not None
    low, high = max(0.0, float(result.mean - result.ci)), min(highest, float(result.mean + result.ci))
    return Score(result.score, signature, min(low, result.score), max(high, result.score))
