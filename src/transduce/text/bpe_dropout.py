"""BPE-dropout: a word is cut differently each time it is met, because merges are left out at random.

Provilkov et al. 2020, algorithm 1: at every step each merge that a word admits is dropped with the same probability,
the best of the others is made, and the word is done when none is left. The randomness is a hash of a key that comes
with each line and of the place in that line, so neither batches nor threads change what comes out.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ByteSymbols", "Merges", "hashed"]

Ids = NDArray[np.int64]

NONE = 1 << 31
"""The rank of two neighbours that nothing joins."""


class ByteSymbols(NamedTuple):
    """The words of many lines, cut into symbols: at first bytes, then what they were merged to."""

    ids: NDArray[Any]
    word: NDArray[Any]  # the number of the symbol's word, over all lines
    key: NDArray[Any]  # the key of the symbol's line
    place: NDArray[Any]  # the number of the symbol's first byte in its line
    start: NDArray[Any]  # the same, over all lines


class Merges:
    """The merges of a BPE, the best first: which two ids give which."""

    def __init__(self, merges: Sequence[tuple[int, int, int]]) -> None:
        left, right, self._products = np.array(merges, np.int64).reshape(-1, 3).T
        self._factor = int(self._products.max(initial=1 << 16)) + 1
        codes = left * self._factor + right
        self._ranks = np.append(np.argsort(codes), NONE)
        # The last code belongs to no pair, so that a search never ends behind it.
        self._codes = np.append(np.sort(codes), self._factor**2)

    def mixed(self, symbols: ByteSymbols, probability: float) -> Ids:
        """What is left when all words are merged: each id at the place of its first byte, elsewhere −1."""
        result = np.full(len(symbols.ids), -1, np.int64)
        for turn in count():
            if not len(symbols.ids):
                break
            symbols = self._merged_once(symbols, probability, turn, result)
        return result

    def _merged_once(self, symbols: ByteSymbols, probability: float, turn: int, result: Ids) -> ByteSymbols:
        """The words with one merge more; those that admit none go into `result` and are left out."""
        size = len(symbols.ids)
        starts = np.flatnonzero(np.diff(symbols.word, prepend=-1))
        # Rank and index in one number: its least in a word is the best merge, and of equals the leftmost.
        ranked = self._admitted(symbols, probability, turn) * size + np.arange(size)
        rank, index = np.divmod(np.minimum.reduceat(ranked, starts), size)
        growing = rank < NONE
        stays = np.repeat(growing, np.diff(starts, append=size))
        result[symbols.start[~stays]] = symbols.ids[~stays]
        symbols.ids[index[growing]] = self._products[rank[growing]]
        stays[index[growing] + 1] = False
        return ByteSymbols(*(column[stays] for column in symbols))

    def _admitted(self, symbols: ByteSymbols, probability: float, turn: int) -> Ids:
        """For each symbol the rank of its merge with the next, `NONE` where there is none or it is dropped."""
        codes = symbols.ids[:-1] * self._factor + symbols.ids[1:]
        found = np.searchsorted(self._codes, codes)
        chance = hashed(symbols.key ^ hashed(symbols.place + (turn << 32)))[:-1] / 2.0**64
        admitted = (self._codes[found] == codes) & (symbols.word[:-1] == symbols.word[1:]) & (chance >= probability)
        return np.append(np.where(admitted, self._ranks[found], NONE), NONE)


def hashed(numbers: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    """A number of 64 random-looking bits for each of `numbers` (splitmix64, Steele et al. 2014)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
