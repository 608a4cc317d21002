"""BPE-dropout, which drops merges at random so that the same word can be encoded in different ways.

This is algorithm 1 of Provilkov et al. 2020. At every step, each possible merge of a word is dropped with the same
probability, and the best of the remaining merges is applied. A word is finished when no merge remains. The random
numbers are hashes of the line's key, the position in the line and the step, so the result depends neither on batches
nor on threads.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

NONE = 1 << 31
"""The rank of a pair of adjacent symbols that cannot be merged."""


class ByteSymbols(NamedTuple):
    """The words of many lines, split into symbols that are single bytes at first and grow as merges are applied."""

    ids: NDArray[Any]
    word: NDArray[Any]  # the index of the symbol's word, counted over all lines
    key: NDArray[Any]  # the key of the symbol's line
    place: NDArray[Any]  # the index of the symbol's first byte in its line
    start: NDArray[Any]  # the index of the symbol's first byte, counted over all lines


class Merges:
    """Applies the merges of BPE, which are given as triples (left id, right id, merged id), best first."""

    def __init__(self, merges: Sequence[tuple[int, int, int]]) -> None:
        left, right, self._products = np.array(merges, np.int64).reshape(-1, 3).T
        self._factor = int(self._products.max(initial=1 << 16)) + 1
        codes = left * self._factor + right
        self._ranks = np.append(np.argsort(codes), NONE)
        # The last code belongs to no pair, so that `searchsorted` never returns an index past the end.
        self._codes = np.append(np.sort(codes), self._factor**2)

    def apply(self, symbols: ByteSymbols, probability: float) -> Ids:
        """Merges the symbols of all words, dropping each merge with the given probability.

        Returns an array with one entry per byte. It contains the id of each subword at the subword's first byte and −1
        everywhere else.
        """
        result = np.full(len(symbols.ids), -1, np.int64)
        for turn in count():
            if not len(symbols.ids):
                break
            symbols = self._merge_once(symbols, probability, turn, result)
        return result

    def _merge_once(self, symbols: ByteSymbols, probability: float, turn: int, result: Ids) -> ByteSymbols:
        """Applies one merge to each word and returns the words that have been merged.

        Words in which no merge is possible are finished, so they are written to `result` instead of being returned.
        """
        size = len(symbols.ids)
        starts = np.flatnonzero(np.diff(symbols.word, prepend=-1))
        # Each number combines a rank and an index, so the minimum in a word is its best merge and, among equals, the
        # leftmost one.
        ranked = self._ranks_of_merges(symbols, probability, turn) * size + np.arange(size)
        rank, index = np.divmod(np.minimum.reduceat(ranked, starts), size)
        growing = rank < NONE
        stays = np.repeat(growing, np.diff(starts, append=size))
        result[symbols.start[~stays]] = symbols.ids[~stays]
        symbols.ids[index[growing]] = self._products[rank[growing]]
        stays[index[growing] + 1] = False
        return ByteSymbols(*(column[stays] for column in symbols))

    def _ranks_of_merges(self, symbols: ByteSymbols, probability: float, turn: int) -> Ids:
        """Returns the rank of each symbol's merge with the next symbol, or `NONE` if it is impossible or dropped."""
        codes = symbols.ids[:-1] * self._factor + symbols.ids[1:]
        slots = np.searchsorted(self._codes, codes)
        chance = hash_numbers(symbols.key ^ hash_numbers(symbols.place + (turn << 32)))[:-1] / 2.0**64
        is_possible = (self._codes[slots] == codes) & (symbols.word[:-1] == symbols.word[1:]) & (chance >= probability)
        return np.append(np.where(is_possible, self._ranks[slots], NONE), NONE)


def hash_numbers(numbers: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """Returns 64 pseudo-random bits for each of `numbers` (splitmix64, Steele et al. 2014)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
