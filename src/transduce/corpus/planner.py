"""The planner: which pairs make a piece, which pieces a step, in which order, from any position.

Lengths are rounded up to a few rungs, fitted to the corpus, so that there are few shapes and little padding
(section 5.1 of the paper batches "by approximate sequence length"). A pair belongs to the smallest rung that holds
both its sides; a piece is so many rows of one rung. Pairs that fill no whole piece move up to the next rung, so
that one piece an epoch is ragged. All is a function of the seed and the epoch.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.corpus.sentences import Store
from transduce.text.subwords import BEGIN, END

__all__ = ["Piece", "Planned", "Planner", "Position", "fitted_rungs", "sentence_batches"]

PIECE = 4096
"""Padded positions a side, about, of a piece where their number is left to the planner."""

Ids = NDArray[np.int64]


class Position(NamedTuple):
    """Between two steps: `step` steps of `epoch` are done."""

    epoch: int = 0
    step: int = 0


BEGINNING = Position()


class Piece(NamedTuple):
    """Pairs in one padded rectangle a side; 0 is padding."""

    source: Ids
    """[batch, source]: words, END."""
    target_in: Ids
    """[batch, target]: BEGIN, words."""
    target_out: Ids
    """[batch, target]: words, END."""


class Planned(NamedTuple):
    """A step: its pieces, the divisor of its loss, and where to go on after it."""

    epoch: int
    step: int
    pieces: list[Piece]
    words: int
    """Target words of all pieces, END included."""
    position: Position


class Rows(NamedTuple):
    """A piece before it is assembled: which pairs, and to which length they are padded."""

    numbers: Ids
    room: int


class Planner:
    """Cuts a store into pieces and steps.

    `batch_tokens` bounds the source and the target positions of a step, padding included. `pieces` is how many
    pieces make a step; "auto" makes them of about 4,096 positions. The last step of an epoch takes the pieces that are
    left. `ValueError` where a pair does not fit into a piece.
    """

    def __init__(
        self, store: Store, *, batch_tokens: int, pieces: int | Literal["auto"], rungs: int = 12, seed: int
    ) -> None:
        self.store = store
        self.seed = seed
        self.pieces = max(1, batch_tokens // PIECE) if pieces == "auto" else pieces
        budget = batch_tokens // self.pieces
        longest = store.longest + 1
        if longest > budget:
            raise ValueError(
                f"training.batch_tokens: the longest pair takes {longest} positions, a piece has {budget} "
                f"({batch_tokens} in {self.pieces} pieces); take at least {longest * self.pieces}, fewer pieces, "
                "or a smaller data.longest"
            )
        self._rungs = self._fitted(rungs)
        fitting = budget // self._rungs
        self._rows = np.where(fitting >= 8, fitting // 8 * 8, fitting)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(rows, length) of every kind of piece; the ragged one has fewer rows."""
        return list(zip(self._rows.tolist(), self._rungs.tolist()))

    @cached_property
    def padding(self) -> float:
        """The share of padded positions, over both sides, in the first epoch."""
        store, plan = self._epoch(0)
        lengths = store.source_lengths + store.target_lengths + 2
        words = sum(int(lengths[rows.numbers].sum()) for rows in plan)
        return 1.0 - words / sum(2 * len(rows.numbers) * rows.room for rows in plan)

    @cached_property
    def words_per_epoch(self) -> int:
        """Target words, END included, of the first epoch."""
        store, plan = self._epoch(0)
        return sum(_words(store, rows) for rows in plan)

    @cached_property
    def steps_per_epoch(self) -> int:
        """Steps of the first epoch."""
        _, plan = self._epoch(0)
        return -(-len(plan) // self.pieces)

    def steps(self, start: Position = BEGINNING) -> Iterator[Planned]:
        """The steps from `start` on, without end; the same whether one starts there or arrives."""
        epoch, first = start
        while True:
            store, plan = self._epoch(epoch)
            count = -(-len(plan) // self.pieces)
            for step in range(first, count):
                rows = plan[step * self.pieces : (step + 1) * self.pieces]
                after = Position(epoch, step + 1) if step + 1 < count else Position(epoch + 1)
                words = sum(_words(store, piece) for piece in rows)
                yield Planned(epoch, step, [_assembled(store, piece) for piece in rows], words, after)
            epoch, first = epoch + 1, 0

    def _fitted(self, rungs: int) -> Ids:
        """Rungs for the lengths of the first epoch; the last holds the longest pair of any."""
        first = self.store.in_epoch(self.seed, 0)
        uses = np.repeat([part.weight for part in first.parts], [part.pairs for part in first.parts])
        counts = np.bincount(_lengths(first), weights=uses, minlength=self.store.longest + 2)
        # With subword dropout another epoch may have this length, if the first has not.
        counts[self.store.longest + 1] += np.finfo(float).tiny
        return fitted_rungs(counts, rungs)

    def _epoch(self, epoch: int) -> tuple[Store, list[Rows]]:
        """The store of an epoch, and its pieces in their order."""
        store = self.store.in_epoch(self.seed, epoch)
        lengths = _lengths(store)
        random = np.random.default_rng([self.seed, epoch])
        numbers = random.permutation(self._used(random))
        rung = np.searchsorted(self._rungs, lengths[numbers])
        groups = np.split(numbers[np.argsort(rung, kind="stable")], np.cumsum(np.bincount(rung))[:-1])
        pieces: list[Rows] = []
        left = numbers[:0]
        for group, rows, room in zip(groups, self._rows.tolist(), self._rungs.tolist()):
            pool = np.concatenate([left, group])
            whole = len(pool) // rows * rows
            pieces += [Rows(piece, room) for piece in pool[:whole].reshape(-1, rows)]
            left = pool[whole:]
        if len(left):
            needed = np.searchsorted(self._rungs, lengths[left].max())
            pieces.append(Rows(left, int(self._rungs[needed])))
        return store, [pieces[place] for place in random.permutation(len(pieces))]

    def _used(self, random: np.random.Generator) -> Ids:
        """The pairs of an epoch: each as often as its corpus weighs, and of a fraction a random choice."""
        chosen, start = [], 0
        for part in self.store.parts:
            numbers = np.arange(start, start + part.pairs)
            times, fraction = divmod(part.weight, 1.0)
            chosen += [numbers] * int(times)
            if fraction:
                chosen.append(random.permutation(numbers)[: max(1, round(fraction * part.pairs))])
            start += part.pairs
        return np.concatenate(chosen)


def _lengths(store: Store) -> NDArray[np.int32]:
    """The positions that each pair takes on its longer side, the symbol included."""
    return np.maximum(store.source_lengths, store.target_lengths) + 1


def _words(store: Store, rows: Rows) -> int:
    return int(store.target_lengths[rows.numbers].sum()) + len(rows.numbers)


def _assembled(store: Store, rows: Rows) -> Piece:
    count = np.arange(len(rows.numbers))
    source, length = store.padded("source", rows.numbers, rows.room)
    source[count, length] = END
    words, length = store.padded("target", rows.numbers, rows.room)
    target_in = np.concatenate([np.full((len(count), 1), BEGIN), words[:, :-1]], axis=1)
    words[count, length] = END
    return Piece(source, target_in, words)


def fitted_rungs(counts: NDArray[Any], rungs: int) -> Ids:
    """The at most `rungs` lengths that pad least, where `counts[length]` sequences have each length.

    Dynamic programming: the cheapest way to cover all lengths up to one with k rungs is, over all shorter lengths,
    the cheapest way to cover those with k − 1 and the rest with one.
    """
    lengths = np.flatnonzero(counts)
    below = np.concatenate([[0], np.cumsum(counts[lengths])])
    # [from, to]: positions that the sequences between take on the rung `to`; a rung cannot end before it begins.
    cost = lengths * (below[None, 1:] - below[:-1, None]).astype(float)
    cost[np.tril_indices(len(lengths), -1)] = np.inf
    best, choices = cost[0], []
    for _ in range(min(rungs, len(lengths)) - 1):
        total = best[:-1, None] + cost[1:]
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [len(lengths) - 1]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1]]))
    return lengths[ends[::-1]].astype(np.int64)


def sentence_batches(
    lengths: NDArray[np.integer[Any]], batch_tokens: int, *, longest_first: bool = True
) -> list[NDArray[np.int64]]:
    """Numbers of sentences, batch by batch, like lengths together: rows × longest is at most `batch_tokens`.

    A sentence longer than that is a batch of its own. Every sentence is in exactly one batch.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches, start = [], 0
    while start < len(order):
        rows = max(1, batch_tokens // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + rows])
        start += rows
    return batches if longest_first else batches[::-1]
