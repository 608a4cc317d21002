"""Computes bracket recall, precision and F1 of a corpus, with confidence intervals and a paired bootstrap test."""

import logging
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.measure.bootstrap import INTERVAL, SEED, check_resamples, p_value, resample
from transduce.parsing.brackets import (
    COLLINS,
    BracketCounts,
    BracketParameters,
    BracketStatus,
    TreeLine,
    count_sentences,
)

_log = logging.getLogger(__name__)

NAMED_SENTENCES = 5  # largest number of invalid sentences that the warning lists


class BracketTotals(NamedTuple):
    """The values in EVALB's summary of the valid sentences. All ratios are in per cent.

    EVALB excludes invalid sentences. `f1_with_errors` includes them, and counts their gold brackets as not found.
    """

    f1: float
    recall: float
    precision: float
    f1_with_errors: float
    complete_match: float  # ratio of sentences with neither missing nor superfluous brackets
    average_crossing: float  # number of crossing brackets per sentence
    no_crossing: float  # ratio of sentences without crossing brackets
    two_or_less_crossing: float  # ratio of sentences with at most two crossing brackets
    tagging_accuracy: float
    sentences: int
    valid: int
    errors: int
    skipped: int
    put_back: int  # number of valid sentences that EVALB excludes because of the tags of their punctuation
    f1_without_put_back: float  # EVALB's F1, which excludes these sentences as well
    matched: int
    gold: int
    output: int


class BracketScore(NamedTuple):
    """The totals of all sentences and of the short sentences, and the 95 % confidence interval of F1.

    The interval is from `low` to `high`, which are None if no bootstrap resamples were drawn.
    """

    totals: BracketTotals
    short: BracketTotals  # the totals of the sentences with at most `cutoff` words
    cutoff: int
    signature: str
    low: float | None
    high: float | None

    @property
    def f1(self) -> float:
        """The F1 of all valid sentences, in per cent."""
        return self.totals.f1

    @property
    def recall(self) -> float:
        """The recall of all valid sentences, in per cent."""
        return self.totals.recall

    @property
    def precision(self) -> float:
        """The precision of all valid sentences, in per cent."""
        return self.totals.precision

    def as_object(self) -> dict[str, Any]:
        """Returns the score as JSON values.

        F1 is called `score`, and the totals of the short sentences are in a nested object.
        """
        score, short = self.totals._asdict(), self.short._asdict()
        return {
            "score": score.pop("f1"),
            "signature": self.signature,
            "low": self.low,
            "high": self.high,
            **score,
            f"up_to_{self.cutoff}": {"score": short.pop("f1"), **short},
        }


class BracketDifference(NamedTuple):
    """The score of a parser, and the difference between its F1 and that of the baseline.

    `p` is the p-value of the difference, which is defined in `Difference`.
    """

    score: BracketScore
    delta: float
    p: float | None


class BracketComparison(NamedTuple):
    """The score of the baseline, and the difference of each other parser from it, in the order of the parsers."""

    baseline: BracketScore
    differences: tuple[BracketDifference, ...]


def bracket_scores(
    gold: Sequence[TreeLine],
    output: Sequence[TreeLine],
    parameters: BracketParameters = COLLINS,
    bootstrap: int | None = None,
) -> BracketScore:
    """Scores output trees against the gold trees of the same sentences, in the same order.

    `bootstrap` is the number of resamples for the confidence interval, or None for no interval. Invalid sentences are
    logged as a warning. Raises ValueError if the numbers of sentences differ, if there are no sentences, or if a gold
    tree cannot be read.
    """
    return _measure(gold, output, parameters, bootstrap, "the output")[0]


def compare_brackets(
    systems: Sequence[Sequence[TreeLine]],
    gold: Sequence[TreeLine],
    parameters: BracketParameters = COLLINS,
    bootstrap: int = 1000,
) -> BracketComparison:
    """Compares the output trees of several systems by F1, with a paired bootstrap test (Koehn 2004).

    The first system is the baseline. See `bracket_scores` for the other arguments.
    """
    measured = [
        _measure(gold, output, parameters, bootstrap, f"output {number}")
        for number, output in enumerate(systems, start=1)
    ]
    baseline, baseline_f1 = measured[0]
    differences = []
    for score, f1 in measured[1:]:
        delta = score.f1 - baseline.f1
        differences.append(BracketDifference(score, delta, p_value(delta, f1 - baseline_f1, len(gold))))
    return BracketComparison(baseline, tuple(differences))


def _measure(
    gold: Sequence[TreeLine],
    output: Sequence[TreeLine],
    parameters: BracketParameters,
    bootstrap: int | None,
    name: str,
) -> tuple[BracketScore, NDArray[np.float64]]:
    """Scores an output. Returns its score, and the F1 of each resample.

    Logs a warning that lists the invalid sentences and calls the output `name`.
    """
    if not gold:
        raise ValueError("the reference has no trees; there is nothing to measure")
    check_resamples(bootstrap)
    counts = count_sentences(gold, output, parameters)
    failed = [(number, each) for number, each in enumerate(counts, start=1) if each.status]
    if failed:
        named = "; ".join(f"sentence {number}: {each.reason}" for number, each in failed[:NAMED_SENTENCES])
        _log.warning(
            "warning: %s of %s sentences of %s are not scored, and f1_with_errors counts their gold brackets as "
            "not found (%s%s)",
            f"{len(failed):,}",
            f"{len(counts):,}",
            name,
            named,
            "; …" if len(failed) > NAMED_SENTENCES else "",
        )
    resamples, low, high, seed = np.empty(0), None, None, ""
    if bootstrap is not None:  # outputs with the same number of sentences get the same resamples
        columns = np.array([(each.matched, each.gold, each.output) for each in counts], dtype=np.int64)
        sums = np.empty((bootstrap, 3), dtype=np.int64)
        for rows, drawn in resample(len(columns), bootstrap):
            sums[rows] = columns[drawn].sum(axis=1)
        resamples = 200.0 * sums[:, 0] / np.maximum(sums[:, 1] + sums[:, 2], 1)
        low, high = np.quantile(resamples, INTERVAL).tolist()
        seed = f"|bs:{bootstrap}|seed:{SEED}"
    score = BracketScore(
        totals=bracket_totals(counts),
        short=bracket_totals([each for each in counts if each.length <= parameters.cutoff]),
        cutoff=parameters.cutoff,
        signature=f"brackets|parameters:{parameters.signature}{seed}|version:{version('transduce')}",
        low=low,
        high=high,
    )
    return score, resamples


def bracket_totals(counts: Sequence[BracketCounts]) -> BracketTotals:
    """Computes the totals of sentences from their counts."""
    valid = [each for each in counts if each.status == BracketStatus.VALID]
    matched, gold, output = _sums(valid)
    missed = sum(each.missed for each in counts)
    evalb = [each for each in valid if not each.put_back]
    return BracketTotals(
        f1=_f1(matched, gold, output),
        recall=_percent(matched, gold),
        precision=_percent(matched, output),
        f1_with_errors=_f1(matched, gold + missed, output),
        complete_match=_percent(sum(each.matched == each.gold == each.output for each in valid), len(valid)),
        average_crossing=_percent(sum(each.crossing for each in valid), len(valid)) / 100,
        no_crossing=_percent(sum(each.crossing == 0 for each in valid), len(valid)),
        two_or_less_crossing=_percent(sum(each.crossing <= 2 for each in valid), len(valid)),
        tagging_accuracy=_percent(sum(each.tags for each in valid), sum(each.words for each in valid)),
        sentences=len(counts),
        valid=len(valid),
        errors=sum(each.status == BracketStatus.ERROR for each in counts),
        skipped=sum(each.status == BracketStatus.SKIPPED for each in counts),
        put_back=len(valid) - len(evalb),
        f1_without_put_back=_f1(*_sums(evalb)),
        matched=matched,
        gold=gold,
        output=output,
    )


def _sums(counts: Sequence[BracketCounts]) -> tuple[int, int, int]:
    """Returns the total numbers of matched, gold and output brackets."""
    return sum(each.matched for each in counts), sum(each.gold for each in counts), sum(each.output for each in counts)


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _f1(matched: int, gold: int, output: int) -> float:
    return _percent(2 * matched, gold + output)
