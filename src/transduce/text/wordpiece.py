"""Learns a WordPiece vocabulary by repeatedly merging the pair of adjacent symbols that raises the likelihood most.

The algorithm is described by Schuster and Nakajima 2012, section 3; the likelihood is that of a unigram model of
symbols. If the text has N symbols, merging a and b raises the log-likelihood, to first order, by
count(ab) · log(N · count(ab) / (count(a) · count(b))). BPE uses only count(ab), so it merges two letters that are
frequent in any case before a rarer pair whose letters always occur together. Another criterion in the literature is the
quotient count(ab) / (count(a) · count(b)) alone. It merges the letters of rare words first, which doubles the length of
sentences.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

MIN_COUNT = 2
"""The minimum number of occurrences that a pair must have to be merged."""

Pair = tuple[int, int]


def learn_wordpiece(words: Mapping[str, int], alphabet: Sequence[str], mark: str, merges: int) -> list[str]:
    """Learns at most `merges` subwords by merging letters, and returns them in the order in which they were learned.

    `words` maps each word to its count, and `alphabet` contains all letters that occur in the words. Subwords that
    continue a word begin with `mark`. Each step merges the pair with the highest gain in likelihood. Ties are broken in
    favour of the pair with the higher count, and then of the pair that comes first in alphabetical order. Learning ends
    early if no merge would raise the likelihood.
    """
    segmentation = Segmentation(words, alphabet, mark)
    learned: dict[str, None] = {}
    while len(learned) < merges and (pair := segmentation.best_pair()) is not None:
        if (subword := segmentation.merge(pair)) is not None:
            learned[subword] = None
    return list(learned)


class Segmentation:
    """The segmentation of words into symbols, with counts of symbols and pairs that every merge updates."""

    def __init__(self, words: Mapping[str, int], alphabet: Sequence[str], mark: str) -> None:
        self._mark = mark
        self._symbols = [*alphabet, *(mark + letter for letter in alphabet)]
        self._ids = {symbol: number for number, symbol in enumerate(self._symbols)}
        self._word_counts = list(words.values())
        self._words = [[self._ids[mark * (index > 0) + letter] for index, letter in enumerate(word)] for word in words]
        self._symbol_counts = np.zeros(2 * len(self._symbols))
        self._pairs: list[Pair] = []
        self._slots: dict[Pair, int] = {}  # the index of each pair in the arrays below
        self._sides = np.zeros((2, 1024), np.int64)
        self._pair_counts = np.zeros(1024)
        self._words_with: defaultdict[Pair, set[int]] = defaultdict(set)
        for number in range(len(self._words)):
            self._count(number, 1)

    def best_pair(self) -> Pair | None:
        """Returns the pair with the highest gain, or None if no merge would raise the likelihood."""
        size = len(self._pairs)
        counts, (left, right) = self._pair_counts[:size], self._sides[:, :size]
        product = self._symbol_counts[left] * self._symbol_counts[right]
        total = self._symbol_counts.sum()
        ratio = np.divide(counts * total, product, out=np.ones(size), where=counts >= MIN_COUNT)
        # In float32, gains that differ only by rounding errors are equal on every machine.
        gains = (counts * np.log(ratio)).astype(np.float32)
        if gains.max(initial=0.0) <= 0.0:
            return None
        ties = np.flatnonzero(gains == gains.max()).tolist()
        return min((self._pairs[slot] for slot in ties), key=self._rank)

    def _rank(self, pair: Pair) -> tuple[float, str, str]:
        """Returns a sort key that breaks ties between pairs with the same gain."""
        return -self._pair_counts[self._slots[pair]], self._symbols[pair[0]], self._symbols[pair[1]]

    def merge(self, pair: Pair) -> str | None:
        """Merges every occurrence of a pair, from left to right.

        Returns the new symbol, or None if the symbol already existed.
        """
        text = self._symbols[pair[0]] + self._symbols[pair[1]].removeprefix(self._mark)
        is_new = text not in self._ids
        symbol = self._ids.setdefault(text, len(self._symbols))
        if is_new:
            self._symbols.append(text)
            if symbol == len(self._symbol_counts):
                self._symbol_counts = np.append(self._symbol_counts, np.zeros(symbol))
        for index in list(self._words_with[pair]):
            self._count(index, -1)
            self._words[index] = _merge_in_word(self._words[index], pair, symbol)
            self._count(index, 1)
        return text if is_new else None

    def _count(self, index: int, sign: int) -> None:
        """Adds the symbols and pairs of one word to the counts, or subtracts them if `sign` is -1."""
        word, count = self._words[index], sign * self._word_counts[index]
        for symbol in word:
            self._symbol_counts[symbol] += count
        for pair, times in Counter(pairwise(word)).items():
            slot = self._slot_of(pair)  # called first, because it may replace the array
            self._pair_counts[slot] += times * count
            if sign > 0:
                self._words_with[pair].add(index)
            else:
                self._words_with[pair].discard(index)

    def _slot_of(self, pair: Pair) -> int:
        """Returns the index of a pair in the arrays, after adding the pair to them if it is new."""
        if (slot := self._slots.get(pair)) is None:
            slot = self._slots[pair] = len(self._pairs)
            self._pairs.append(pair)
            if slot == len(self._pair_counts):
                self._pair_counts = np.append(self._pair_counts, np.zeros(slot))
                self._sides = np.append(self._sides, np.zeros((2, slot), np.int64), axis=1)
            self._sides[:, slot] = pair
        return slot


def _merge_in_word(word: list[int], pair: Pair, symbol: int) -> list[int]:
    """Replaces each occurrence of `pair` in a word with `symbol`."""
    merged: list[int] = []
    index = 0
    while index < len(word):
        is_pair = word[index] == pair[0] and index + 1 < len(word) and word[index + 1] == pair[1]
        merged.append(symbol if is_pair else word[index])
        index += 2 if is_pair else 1
    return merged
