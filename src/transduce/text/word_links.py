"""Which words of a pair translate each other, judged by how often they occur in the same pairs of a corpus.

Words are linked one to one, those with the largest Dice coefficient first (competitive linking: Melamed 2000).
"""

import functools
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.runtime.combining_marks import combining_marks

__all__ = ["LinkedSpan", "WordLinks"]

MIN_PAIRS = 3
"""Pairs in which two words have to occur together: fewer may be chance."""

MAX_SHARE = 0.05
"""Of the pairs; a word of more pairs, such as an article, is no term."""

MIN_DICE = 0.2
"""Dice coefficient of two words: twice the pairs that have both, divided by the sum of the pairs that have one."""

MAX_WORDS = 3
"""Of a span."""

MAX_LENGTH = 50
"""Words of a side that count: memory grows with the product of both sides."""


class LinkedSpan(NamedTuple):
    """A part of a source and its translation in the target, each as the characters from start to end."""

    source: slice
    target: slice


class WordLink(NamedTuple):
    """A word of a source and the word of the target that translates it."""

    source: re.Match[str]
    target: re.Match[str]


class WordLinks:
    """Finds spans of a source whose translations are in the target."""

    def __init__(self, dice: dict[tuple[str, str], float]) -> None:
        """Takes the Dice coefficients of pairs of words."""
        self.dice = dice

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]]) -> "WordLinks":
        """Counts in how many of `pairs` two words occur together."""
        sides = [
            [sorted(set(_words().findall(text)))[:MAX_LENGTH] for text in side] for side in zip(*pairs, strict=True)
        ]
        if not sides:
            return cls({})
        words = [_words_of_terms(side) for side in sides]
        numbers = [_numbered(side, names) for side, names in zip(sides, words, strict=True)]
        size = len(words[1]) + 1
        together = [(left[:, None] * size + right).ravel() for left, right in zip(*numbers, strict=True)]
        codes, counts = np.unique(np.concatenate(together), return_counts=True)
        rows, columns = np.divmod(codes[counts >= MIN_PAIRS], size)
        alone = [np.bincount(np.concatenate(side)) for side in numbers]
        dice = 2 * counts[counts >= MIN_PAIRS] / (alone[0][rows] + alone[1][columns])
        kept = np.flatnonzero(dice >= MIN_DICE).tolist()
        return cls({(words[0][rows[n]], words[1][columns[n]]): float(dice[n]) for n in kept})

    def link(self, source: str, target: str) -> list[WordLink]:
        """Returns the words of `source` that have a translation in `target`, in their order.

        Of equal Dice coefficients the one of the closest relative positions comes first.
        """
        left, right = (list(_words().finditer(text))[:MAX_LENGTH] for text in (source, target))
        candidates = [
            (-dice, abs(row / len(left) - column / len(right)), row, column)
            for row, one in enumerate(left)
            for column, other in enumerate(right)
            if (dice := self.dice.get((one.group(), other.group())))
        ]
        linked: dict[int, int] = {}
        for *_, row, column in sorted(candidates):
            if row not in linked and column not in linked.values():
                linked[row] = column
        return [WordLink(left[row], right[column]) for row, column in sorted(linked.items())]

    def draw_spans(self, source: str, target: str, most: int, rng: random.Random) -> list[LinkedSpan]:
        """Returns from 1 to `most` random spans of `source`, in their order; none where no word has a translation.

        A span is a word, or up to `MAX_WORDS` neighbours whose translations are neighbours too.
        """
        links, spans = self.link(source, target), list[LinkedSpan]()
        firsts = sorted(rng.sample(range(len(links)), rng.randint(1, min(most, len(links))))) if links else []
        for first in firsts:
            if spans and links[first].source.start() < spans[-1].source.stop:
                continue
            chain = [links[first]]
            for link in links[first + 1 : first + MAX_WORDS]:
                if rng.random() < 0.5 or not _are_neighbours(chain[-1], link):
                    break
                chain.append(link)
            ends = zip(chain[0], chain[-1], strict=True)
            spans.append(LinkedSpan(*(slice(start.start(), end.end()) for start, end in ends)))
        return spans


@functools.cache
def _words() -> re.Pattern[str]:
    """Returns the pattern of a word, in which hyphens may stand."""
    word = rf"[\w{combining_marks()}]+"
    return re.compile(f"{word}(?:-{word})*")


def _words_of_terms(side: Sequence[Sequence[str]]) -> list[str]:
    """Returns the words that are neither too rare nor too frequent to be terms."""
    counts = Counter(word for words in side for word in words)
    return sorted(word for word, count in counts.items() if MIN_PAIRS <= count <= max(MAX_SHARE * len(side), MIN_PAIRS))


def _numbered(side: Sequence[Sequence[str]], words: Sequence[str]) -> list[NDArray[Any]]:
    """Returns the numbers of the words of each line; words that are not in `words` have none."""
    numbers = {word: number for number, word in enumerate(words)}
    return [np.array([numbers[word] for word in line if word in numbers], np.int64) for line in side]


def _are_neighbours(one: WordLink, other: WordLink) -> bool:
    """Returns whether there are only spaces between two links, on both sides."""
    between = [word.string[word.end() : following.start()] for word, following in zip(one, other, strict=True)]
    return all(text.isspace() for text in between)
