"""Words and n-grams of two systems' outputs that match a reference: by frequency of the words, won and lost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = ["FrequencyBucket", "NgramDifference", "ngram_differences", "score_by_frequency"]

FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)  # the least of each bucket; from 1,000 there is no upper bound
ORDER = 4  # words of the longest n-gram
SMOOTHING = 1.0  # is added to matched and to missed n-grams, so that an n-gram of one sentence does not lead the list

Words = Sequence[Sequence[str]]  # [sentences, words]


class FrequencyBucket(NamedTuple):
    """The words whose frequency is in a range, and how well each system finds them in the reference.

    A word of an output matches where the reference of the same sentence has it, at most as often as there. `f1` is in
    per cent, of each system.
    """

    low: int
    high: int | None  # inclusive; None without an upper bound
    words: int  # of the reference, in running text
    f1: tuple[float, ...]


class NgramDifference(NamedTuple):
    """An n-gram of the reference that one system matches more often than the other.

    `odds` is the ratio of the odds of a match, the better system's by the other's: (m + 1) / (n - m + 1) for m matches
    of n n-grams of the reference.
    """

    ngram: str
    in_reference: int
    matches: tuple[int, int]  # of each system, in its order
    odds: float


def score_by_frequency(
    systems: Sequence[Words], reference: Words, frequency: Mapping[str, int]
) -> tuple[FrequencyBucket, ...]:
    """Returns the buckets that hold words of the reference; `frequency` counts the words of a training text."""
    in_reference = _counts_by_bucket(Counter(word for words in reference for word in words), frequency)
    in_outputs, matched = [], []
    for system in systems:
        in_outputs.append(_counts_by_bucket(Counter(word for words in system for word in words), frequency))
        matched.append(_counts_by_bucket(_matches(system, reference, order=1), frequency))
    buckets = []
    for low, high in zip(FREQUENCIES, [*(bound - 1 for bound in FREQUENCIES[1:]), None], strict=True):
        if in_reference[low]:
            f1 = (
                200 * common[low] / (output[low] + in_reference[low])
                for common, output in zip(matched, in_outputs, strict=True)
            )
            buckets.append(FrequencyBucket(low, high, in_reference[low], tuple(f1)))
    return tuple(buckets)


def _counts_by_bucket(counts: Mapping[str, int], frequency: Mapping[str, int]) -> Counter[int]:
    """Returns the sum of the counts of the words in each bucket, which its least frequency names."""
    totals: Counter[int] = Counter()
    for word, count in counts.items():
        totals[max(low for low in FREQUENCIES if low <= frequency.get(word, 0))] += count
    return totals


def ngram_differences(
    systems: tuple[Words, Words], reference: Words, *, top: int
) -> tuple[tuple[NgramDifference, ...], tuple[NgramDifference, ...]]:
    """Returns the n-grams of one to four words that the first system matches more often, and those of the second.

    Each list has at most `top` n-grams, the highest odds ratio first.
    """
    in_reference = Counter(ngram for words in reference for ngram in _ngrams(words, ORDER))
    first, second = (_matches(system, reference, order=ORDER) for system in systems)
    differences: tuple[list[NgramDifference], list[NgramDifference]] = ([], [])
    for ngram in first.keys() | second.keys():
        matches = first[ngram], second[ngram]
        if matches[0] != matches[1]:
            odds = _odds_ratio(max(matches), min(matches), in_reference[ngram])
            difference = NgramDifference(ngram, in_reference[ngram], matches, odds)
            differences[matches[1] > matches[0]].append(difference)
    won, lost = (sorted(side, key=lambda each: (-each.odds, each.ngram))[:top] for side in differences)
    return tuple(won), tuple(lost)


def _odds_ratio(more: int, fewer: int, total: int) -> float:
    """Returns the smoothed odds ratio of `more` and `fewer` matches among `total` n-grams."""
    missed_by_better, missed_by_other = total - more, total - fewer
    return (more + SMOOTHING) * (missed_by_other + SMOOTHING) / ((missed_by_better + SMOOTHING) * (fewer + SMOOTHING))


def _matches(system: Words, reference: Words, *, order: int) -> Counter[str]:
    """Returns how often each n-gram up to `order` of an output is in the reference, clipped sentence by sentence."""
    total: Counter[str] = Counter()
    for output, expected in zip(system, reference, strict=True):
        total.update(Counter(_ngrams(output, order)) & Counter(_ngrams(expected, order)))
    return total


def _ngrams(words: Sequence[str], order: int) -> Iterator[str]:
    """Yields the n-grams of 1 to `order` words, with a space between the words."""
    for size in range(1, order + 1):
        for start in range(len(words) - size + 1):
            yield " ".join(words[start : start + size])
