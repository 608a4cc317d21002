"""Two systems on one test set: where they differ, by length, by word frequency, in n-grams and in single sentences.

The analyses are those of compare-mt (Neubig et al. 2019, "compare-mt: A Tool for Holistic Comparison of Language
Generation Systems"). Words are what the tokeniser of BLEU makes of a line.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from transduce.measure.metrics import metric_named, words_of_bleu
from transduce.measure.scores import Comparison, compare
from transduce.measure.word_matches import (
    FrequencyBucket,
    NgramDifference,
    ngram_differences,
    score_by_frequency,
)

__all__ = [
    "LengthBucket",
    "OutputComparison",
    "SentenceDifference",
    "compare_systems",
    "score_by_length",
    "sentence_differences",
    "sentence_scores",
]

LENGTHS = (0, 10, 20, 30, 40, 50, 60)  # the least number of words of each bucket
METRICS = ("bleu", "chrf")


class LengthBucket(NamedTuple):
    """The sentences whose reference has a number of words in a range, and the scores of each system on them."""

    low: int
    high: int | None  # inclusive; None without an upper bound
    sentences: int
    bleu: tuple[float, ...]
    chrf: tuple[float, ...]


class SentenceDifference(NamedTuple):
    """A sentence, counted from 1, and the chrF of both outputs of it."""

    line: int
    chrf: tuple[float, float]


class OutputComparison(NamedTuple):
    """How two systems, A and B, differ. Pairs are in the order of the systems; scores are from 0 to 100."""

    scores: dict[str, Comparison]  # by metric; A is the baseline
    words: tuple[int, int]  # of the outputs
    reference_words: int
    by_length: tuple[LengthBucket, ...]
    by_frequency: tuple[FrequencyBucket, ...]
    ngrams: tuple[tuple[NgramDifference, ...], tuple[NgramDifference, ...]]  # that A matches more often; that B does
    sentences: tuple[tuple[SentenceDifference, ...], tuple[SentenceDifference, ...]]  # where A is better; where B is

    @property
    def length_ratios(self) -> tuple[float, float]:
        """Words of each output by words of the reference; not a number where the reference has none."""
        first, second = (count / self.reference_words if self.reference_words else float("nan") for count in self.words)
        return first, second


def compare_systems(
    systems: tuple[Sequence[str], Sequence[str]],
    reference: Sequence[str],
    *,
    train: Sequence[str] | None = None,
    language: str | None = None,
    bootstrap: int = 1000,
    top: int = 10,
) -> OutputComparison:
    """Compares the outputs of two systems, a line a sentence.

    Words are counted in `train`, text of the language of the outputs, or in the reference where it is None. `top` is
    the most n-grams and sentences of each direction. Raises ValueError as `scores` does.
    """
    scores = compare(systems, [reference], METRICS, language=language, bootstrap=bootstrap)
    outputs = words_of_bleu(systems[0], language=language), words_of_bleu(systems[1], language=language)
    expected = words_of_bleu(reference, language=language)
    counted = expected if train is None else words_of_bleu(train, language=language)
    frequency = Counter(word for words in counted for word in words)
    return OutputComparison(
        scores=scores,
        words=(sum(map(len, outputs[0])), sum(map(len, outputs[1]))),
        reference_words=sum(map(len, expected)),
        by_length=score_by_length(systems, reference, list(map(len, expected)), language),
        by_frequency=score_by_frequency(outputs, expected, frequency),
        ngrams=ngram_differences(outputs, expected, top=top),
        sentences=sentence_differences(
            (sentence_scores(systems[0], reference), sentence_scores(systems[1], reference)), top=top
        ),
    )


def score_by_length(
    systems: Sequence[Sequence[str]], reference: Sequence[str], lengths: Sequence[int], language: str | None
) -> tuple[LengthBucket, ...]:
    """Returns the buckets that have sentences; `lengths` are the words of the reference."""
    buckets = []
    for low, high in zip(LENGTHS, [*(bound - 1 for bound in LENGTHS[1:]), None], strict=True):
        chosen = [place for place, length in enumerate(lengths) if low <= length and (high is None or length <= high)]
        if chosen:
            bleu, chrf = (_scores_of(name, systems, reference, chosen, language) for name in METRICS)
            buckets.append(LengthBucket(low, high, len(chosen), bleu, chrf))
    return tuple(buckets)


def _scores_of(
    name: str,
    systems: Sequence[Sequence[str]],
    reference: Sequence[str],
    chosen: Sequence[int],
    language: str | None,
) -> tuple[float, ...]:
    """Returns the score of each system on the chosen sentences by the metric `name`."""
    scorer = metric_named(name, language=language).scorer
    expected = [[reference[place] for place in chosen]]
    return tuple(scorer.corpus_score([system[place] for place in chosen], expected).score for system in systems)


def sentence_scores(output: Sequence[str], reference: Sequence[str]) -> list[float]:
    """Returns the chrF of each sentence."""
    scorer = metric_named("chrf", language=None).scorer
    return [scorer.sentence_score(line, [target]).score for line, target in zip(output, reference, strict=True)]


def sentence_differences(
    scores: tuple[Sequence[float], Sequence[float]], *, top: int
) -> tuple[tuple[SentenceDifference, ...], tuple[SentenceDifference, ...]]:
    """Returns the sentences where the first system is better by chrF, and those of the second, most different first.

    `scores` are the `sentence_scores` of both systems.
    """
    differences: tuple[list[SentenceDifference], list[SentenceDifference]] = ([], [])
    for line, chrf in enumerate(zip(*scores, strict=True), start=1):
        if chrf[0] != chrf[1]:
            differences[chrf[1] > chrf[0]].append(SentenceDifference(line, chrf))
    better, worse = (
        sorted(side, key=lambda each: (-abs(each.chrf[0] - each.chrf[1]), each.line))[:top] for side in differences
    )
    return tuple(better), tuple(worse)
