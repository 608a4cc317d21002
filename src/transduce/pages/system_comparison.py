"""Systems on one test set: how good they are by length and by word frequency, and where two of them differ.

The analyses follow compare-mt (Neubig et al. 2019, "compare-mt: A Tool for Holistic Comparison of Language Generation
Systems"). Words are the tokens of BLEU's tokeniser.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from transduce.measure.metrics import metric_named, words_of_bleu
from transduce.measure.scoring import Comparison, compare

METRICS = ("bleu", "chrf")
LENGTHS = (0, 10, 20, 30, 40, 50, 60)  # the least number of words of each bucket; the last has no upper bound
FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)  # the least frequency of each bucket
ORDER = 4  # words of the longest n-gram
SMOOTHING = 1.0  # added to matched and missed n-grams, so that an n-gram of a single sentence does not lead the list

Words = Sequence[Sequence[str]]  # [sentences, words]


def _range_text(low: int, high: int | None) -> str:
    """The range from `low` to `high` in words, for example "10 to 19"."""
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


class LengthBucket(NamedTuple):
    """The sentences whose reference has a number of words in a range, and the scores of each system on them."""

    low: int
    high: int | None  # inclusive; None without an upper bound
    sentences: int
    bleu: tuple[float, ...]
    chrf: tuple[float, ...]

    @property
    def range(self) -> str:
        """The range in words, for example "10 to 19"."""
        return _range_text(self.low, self.high)


class FrequencyBucket(NamedTuple):
    """The words whose frequency is in a range, and how well each system finds them in the reference.

    A word in an output matches if it is in the sentence's reference, and counts at most as often as it occurs there.
    `f1` is in per cent, for each system.
    """

    low: int
    high: int | None  # inclusive; None without an upper bound
    words: int  # number of running words of the reference
    f1: tuple[float, ...]

    @property
    def range(self) -> str:
        """The range in words, for example "10 to 19"."""
        return _range_text(self.low, self.high)


class NgramDifference(NamedTuple):
    """An n-gram of the reference that one system matches more often than the other.

    `odds` is the ratio of the odds of a match, the better system's divided by the other's. A system with m matches of n
    n-grams in the reference has the odds (m + 1) / (n - m + 1).
    """

    ngram: str
    in_reference: int
    matches: tuple[int, int]  # of each system, in order
    odds: float


class SentenceDifference(NamedTuple):
    """A sentence, counted from 1, and the chrF of both its outputs."""

    line: int
    chrf: tuple[float, float]


class SystemScores(NamedTuple):
    """How good the outputs of one or several systems are, in order; scores are from 0 to 100."""

    scores: dict[str, Comparison]  # by metric; the first system is the baseline
    words: tuple[int, ...]  # of the outputs
    reference_words: int
    by_length: tuple[LengthBucket, ...]
    by_frequency: tuple[FrequencyBucket, ...]
    sentence_chrf: tuple[tuple[float, ...], ...]  # [systems, sentences]

    @property
    def length_ratios(self) -> tuple[float, ...]:
        """Words of each output divided by words of the reference; NaN if the reference has none."""
        return tuple(count / self.reference_words if self.reference_words else float("nan") for count in self.words)


class OutputComparison(NamedTuple):
    """How two systems, A and B, differ."""

    systems: SystemScores  # A is the baseline
    ngrams: tuple[tuple[NgramDifference, ...], tuple[NgramDifference, ...]]  # that A matches more often; that B does
    sentences: tuple[tuple[SentenceDifference, ...], tuple[SentenceDifference, ...]]  # where A is better; where B is


def compare_systems(
    systems: tuple[Sequence[str], Sequence[str]],
    reference: Sequence[str],
    *,
    train: Sequence[str] | None = None,
    language: str | None = None,
    bootstrap: int = 1000,
    top: int = 10,
) -> OutputComparison:
    """Compares the outputs of two systems; each line is a sentence.

    The other parameters are the same as for `score_systems`; `top` limits the n-grams and the sentences in each
    direction. Raises ValueError like `scores`.
    """
    scored = score_systems(systems, reference, train=train, language=language, bootstrap=bootstrap)
    outputs = words_of_bleu(systems[0], language=language), words_of_bleu(systems[1], language=language)
    ngrams = _ngram_differences(outputs, words_of_bleu(reference, language=language), top)
    return OutputComparison(scored, ngrams, sentence_differences(*scored.sentence_chrf, top=top))


def score_systems(
    systems: Sequence[Sequence[str]],
    reference: Sequence[str],
    *,
    train: Sequence[str] | None = None,
    language: str | None = None,
    bootstrap: int = 1000,
) -> SystemScores:
    """Scores the outputs of systems, one sentence per line: overall, by length, by word frequency, and each sentence.

    Words are counted in `train`, a text in the language of the outputs, or in the reference if `train` is None. Raises
    ValueError like `scores`.
    """
    scores = compare(systems, [reference], METRICS, language=language, bootstrap=bootstrap)
    outputs = [words_of_bleu(system, language=language) for system in systems]
    expected = words_of_bleu(reference, language=language)
    counted = expected if train is None else words_of_bleu(train, language=language)
    chrf = metric_named("chrf", language=None).scorer
    return SystemScores(
        scores=scores,
        words=tuple(sum(map(len, words)) for words in outputs),
        reference_words=sum(map(len, expected)),
        by_length=_score_by_length(systems, reference, list(map(len, expected)), language),
        by_frequency=_score_by_frequency(outputs, expected, Counter(word for words in counted for word in words)),
        sentence_chrf=tuple(
            tuple(chrf.sentence_score(line, [target]).score for line, target in zip(system, reference, strict=True))
            for system in systems
        ),
    )


def _score_by_length(
    systems: Sequence[Sequence[str]], reference: Sequence[str], lengths: Sequence[int], language: str | None
) -> tuple[LengthBucket, ...]:
    """The buckets that have sentences; `lengths` are the numbers of words of the references."""
    buckets = []
    for low, high in _ranges(LENGTHS):
        chosen = [index for index, length in enumerate(lengths) if low <= length and (high is None or length <= high)]
        if not chosen:
            continue
        expected = [[reference[index] for index in chosen]]
        parts = [[system[index] for index in chosen] for system in systems]
        scorers = (metric_named(name, language=language).scorer for name in METRICS)
        bleu, chrf = (tuple(scorer.corpus_score(part, expected).score for part in parts) for scorer in scorers)
        buckets.append(LengthBucket(low, high, len(chosen), bleu, chrf))
    return tuple(buckets)


def _ranges(bounds: Sequence[int]) -> Iterator[tuple[int, int | None]]:
    """Yields the least and the greatest number of each bucket; the last bucket has no greatest number."""
    yield from zip(bounds, [*(bound - 1 for bound in bounds[1:]), None], strict=True)


def _score_by_frequency(
    systems: Sequence[Words], reference: Words, frequency: Mapping[str, int]
) -> tuple[FrequencyBucket, ...]:
    """The buckets that hold words of the reference; `frequency` counts the words of a training text."""
    in_reference = _counts_by_bucket(Counter(word for words in reference for word in words), frequency)
    in_outputs, matched = [], []
    for system in systems:
        in_outputs.append(_counts_by_bucket(Counter(word for words in system for word in words), frequency))
        matched.append(_counts_by_bucket(_matches(system, reference, order=1), frequency))
    buckets = []
    for low, high in _ranges(FREQUENCIES):
        if in_reference[low]:
            f1 = (
                200 * common[low] / (output[low] + in_reference[low])
                for common, output in zip(matched, in_outputs, strict=True)
            )
            buckets.append(FrequencyBucket(low, high, in_reference[low], tuple(f1)))
    return tuple(buckets)


def _counts_by_bucket(counts: Mapping[str, int], frequency: Mapping[str, int]) -> Counter[int]:
    """Sum of the counts of the words in each bucket; a bucket is named by its least frequency."""
    totals: Counter[int] = Counter()
    for word, count in counts.items():
        totals[max(low for low in FREQUENCIES if low <= frequency.get(word, 0))] += count
    return totals


def _ngram_differences(
    systems: tuple[Words, Words], reference: Words, top: int
) -> tuple[tuple[NgramDifference, ...], tuple[NgramDifference, ...]]:
    """Finds the n-grams of one to four words that the first system matches more often, and that the second does.

    Each list has at most `top` n-grams, highest odds ratio first.
    """
    in_reference = Counter(ngram for words in reference for ngram in _ngrams(words, ORDER))
    first, second = (_matches(system, reference, order=ORDER) for system in systems)
    differences: tuple[list[NgramDifference], list[NgramDifference]] = ([], [])
    for ngram in first.keys() | second.keys():
        matches = first[ngram], second[ngram]
        if matches[0] != matches[1]:
            more, fewer, total = max(matches), min(matches), in_reference[ngram]
            odds = (more + SMOOTHING) * (total - fewer + SMOOTHING) / ((total - more + SMOOTHING) * (fewer + SMOOTHING))
            difference = NgramDifference(ngram, total, matches, odds)
            differences[matches[1] > matches[0]].append(difference)
    won, lost = (sorted(side, key=lambda each: (-each.odds, each.ngram))[:top] for side in differences)
    return tuple(won), tuple(lost)


def _matches(system: Words, reference: Words, *, order: int) -> Counter[str]:
    """How often each n-gram up to `order` of an output is in the reference, clipped sentence by sentence."""
    total: Counter[str] = Counter()
    for output, expected in zip(system, reference, strict=True):
        total.update(Counter(_ngrams(output, order)) & Counter(_ngrams(expected, order)))
    return total


def _ngrams(words: Sequence[str], order: int) -> Iterator[str]:
    """Yields the n-grams of 1 to `order` words, with a space between the words."""
    for size in range(1, order + 1):
        for start in range(len(words) - size + 1):
            yield " ".join(words[start : start + size])


def sentence_differences(
    first: Sequence[float], second: Sequence[float], *, top: int
) -> tuple[tuple[SentenceDifference, ...], tuple[SentenceDifference, ...]]:
    """Finds the sentences where the first system is better by chrF, and where the second is, largest difference first.

    The parameters are the chrF of each sentence.
    """
    differences: tuple[list[SentenceDifference], list[SentenceDifference]] = ([], [])
    for line, chrf in enumerate(zip(first, second, strict=True), start=1):
        if chrf[0] != chrf[1]:
            differences[chrf[1] > chrf[0]].append(SentenceDifference(line, chrf))
    better, worse = (
        sorted(side, key=lambda each: (-abs(each.chrf[0] - each.chrf[1]), each.line))[:top] for side in differences
    )
    return tuple(better), tuple(worse)
