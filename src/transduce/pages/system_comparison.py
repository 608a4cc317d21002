"""Scores systems on a test set by sentence length and word frequency, and finds where two systems differ.

The analyses follow compare-mt (Neubig et al. 2019, "compare-mt: A Tool for Holistic Comparison of Language Generation
Systems"). Words are the tokens of BLEU's tokeniser.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from transduce.measure.metrics import metric_named, words_of_bleu
from transduce.measure.scoring import Comparison, compare

METRICS = ("bleu", "chrf")
LENGTHS = (0, 10, 20, 30, 40, 50, 60)  # the smallest number of words in each bucket; the last has no upper bound
FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)  # the lowest word frequency in each bucket
ORDER = 4  # number of words in the longest n-grams
SMOOTHING = 1.0  # added to matched and missed n-grams, so that an n-gram of a single sentence does not lead the list

Words = Sequence[Sequence[str]]  # [sentences, words]


def _range_text(low: int, high: int | None) -> str:
    """Formats the range from `low` to `high` as text, for example "10 to 19"."""
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


class LengthBucket(NamedTuple):
    """The sentences whose references have from `low` to `high` words, and the scores of each system on them."""

    low: int
    high: int | None  # inclusive; None if there is no upper bound
    sentences: int
    bleu: tuple[float, ...]
    chrf: tuple[float, ...]

    @property
    def range(self) -> str:
        """Returns the range of sentence lengths as text, for example "10 to 19"."""
        return _range_text(self.low, self.high)


class FrequencyBucket(NamedTuple):
    """The words with frequencies from `low` to `high`, and how well each system reproduces them.

    A word in an output is a match if the reference of the sentence contains it, but a word has at most as many matches
    as occurrences in the reference. `f1` is the F1 score of each system in per cent.
    """

    low: int
    high: int | None  # inclusive; None if there is no upper bound
    words: int  # number of occurrences of these words in the reference
    f1: tuple[float, ...]

    @property
    def range(self) -> str:
        """Returns the range of word frequencies as text, for example "10 to 99"."""
        return _range_text(self.low, self.high)


class NgramDifference(NamedTuple):
    """An n-gram of the reference that one system matches more often than the other.

    `odds` is the odds ratio: the better system's odds of a match, divided by the other system's odds. A system that
    matches m of the n occurrences in the reference has the odds (m + 1) / (n - m + 1).
    """

    ngram: str
    in_reference: int
    matches: tuple[int, int]  # number of matches of each system
    odds: float


class SentenceDifference(NamedTuple):
    """The chrF of two systems' outputs for the same sentence; `line` counts from 1."""

    line: int
    chrf: tuple[float, float]


class SystemScores(NamedTuple):
    """The scores of one or more systems, in the order of the systems; all scores are from 0 to 100."""

    scores: dict[str, Comparison]  # by metric; the first system is the baseline
    words: tuple[int, ...]  # number of words in the output of each system
    reference_words: int
    by_length: tuple[LengthBucket, ...]
    by_frequency: tuple[FrequencyBucket, ...]
    sentence_chrf: tuple[tuple[float, ...], ...]  # [systems, sentences]

    @property
    def length_ratios(self) -> tuple[float, ...]:
        """Returns the ratio of the words in each output to those in the reference, or NaN if the reference has none."""
        return tuple(count / self.reference_words if self.reference_words else float("nan") for count in self.words)


class OutputComparison(NamedTuple):
    """The scores of two systems, A and B, and the differences between their outputs."""

    systems: SystemScores  # A is the baseline
    ngrams: tuple[tuple[NgramDifference, ...], tuple[NgramDifference, ...]]  # matched more often by A, and by B
    sentences: tuple[tuple[SentenceDifference, ...], tuple[SentenceDifference, ...]]  # higher chrF for A, and for B


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

    `train`, `language` and `bootstrap` are as in `score_systems`; `top` limits the number of n-grams and of sentences
    for each system. Raises ValueError like `scores`.
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
    """Scores the outputs of systems as a whole, by sentence length, by word frequency and sentence by sentence.

    Each line of an output is a sentence. Word frequencies are those in `train`, a text in the language of the outputs,
    or in the reference if `train` is None. Raises ValueError like `scores`.
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
    """Returns the buckets that contain sentences; `lengths` contains the number of words in each reference."""
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
    """Yields the smallest and the largest value of each bucket; the largest value of the last bucket is None."""
    yield from zip(bounds, [*(bound - 1 for bound in bounds[1:]), None], strict=True)


def _score_by_frequency(
    systems: Sequence[Words], reference: Words, frequency: Mapping[str, int]
) -> tuple[FrequencyBucket, ...]:
    """Returns the buckets that contain words of the reference; `frequency` maps words to their frequencies."""
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
    """Sums the counts of the words in each bucket; the key of a bucket is its lowest frequency."""
    totals: Counter[int] = Counter()
    for word, count in counts.items():
        totals[max(low for low in FREQUENCIES if low <= frequency.get(word, 0))] += count
    return totals


def _ngram_differences(
    systems: tuple[Words, Words], reference: Words, top: int
) -> tuple[tuple[NgramDifference, ...], tuple[NgramDifference, ...]]:
    """Finds the n-grams that the first system matches more often, and those that the second matches more often.

    The n-grams have one to four words. Each list has at most `top` of them, with the highest odds ratio first.
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
    """Counts, for each n-gram of up to `order` words, its occurrences in the output that match the reference.

    The counts are clipped in each sentence, so that they do not exceed those of the reference.
    """
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
    """Finds the sentences where the first system has a higher chrF, and those where the second has a higher chrF.

    `first` and `second` are the chrF of each sentence. Each list has at most `top` sentences, with the largest
    difference first.
    """
    differences: tuple[list[SentenceDifference], list[SentenceDifference]] = ([], [])
    for line, chrf in enumerate(zip(first, second, strict=True), start=1):
        if chrf[0] != chrf[1]:
            differences[chrf[1] > chrf[0]].append(SentenceDifference(line, chrf))
    better, worse = (
        sorted(side, key=lambda each: (-abs(each.chrf[0] - each.chrf[1]), each.line))[:top] for side in differences
    )
    return tuple(better), tuple(worse)
