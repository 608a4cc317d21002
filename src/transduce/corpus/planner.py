"""The planner: which pairs make a piece, which pieces a step, in which order, from any position.

Lengths are rounded up to a few rungs (length buckets), fitted to the corpus, so that there are few shapes and little
padding (section 5.1 of the paper batches "by approximate sequence length"). A pair belongs to the smallest rung that
holds both its sides; a piece is so many rows of one rung. Pairs that fill no whole piece move up to the next rung, so
that one piece an epoch is ragged. All is a function of the seed and the epoch.

A large corpus is planned a portion at a time, shuffled without being laid out, so that a training begins within seconds
on a store of any size.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.corpus.token_store import SIDES, Part, Store
from transduce.text.bpe_dropout import hashed
from transduce.text.subwords import BEGIN, END

__all__ = ["Piece", "Planned", "Planner", "Position", "fitted_rungs", "scattered", "sentence_batches"]

PORTION = 1 << 21
"""Pairs, at most, that are put in order at a time."""

PIECE = 4096
"""Padded positions a side, about, of a piece where their number is left to the planner."""

Ids = NDArray[np.int64]


class Position(NamedTuple):
    """Between two steps: `step` steps of a portion of `epoch` are done."""

    epoch: int = 0
    step: int = 0
    portion: int = 0


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
    pieces: list[Piece]
    """Those of one process."""
    all_pieces: int
    """How many all processes have."""
    words: int
    """Target words of all pieces, END included."""
    position: Position


class Rows(NamedTuple):
    """A piece before it is assembled: which pairs, and to which length they are padded."""

    numbers: Ids
    room: int


def pieces_of_a_step(batch_tokens: int, pieces: int | Literal["auto"]) -> int:
    """As many as are asked for; "auto" makes them of about 4,096 positions."""
    return max(1, batch_tokens // PIECE) if pieces == "auto" else pieces


class Planner:
    """Cuts a store into pieces and steps.

    `batch_tokens` bounds the source and the target positions of a step, padding included. `pieces` is how many
    pieces make a step, as `pieces_of_a_step` has it. The last step of an epoch takes the pieces that are
    left. `ValueError` where a pair does not fit into a piece.
    """

    def __init__(
        self, store: Store, *, batch_tokens: int, pieces: int | Literal["auto"], rungs: int = 12, seed: int
    ) -> None:
        self.store = store
        self.seed = seed
        self._latest: tuple[tuple[int, int], tuple[Store, list[Rows]]] | None = None
        self.pieces = pieces_of_a_step(batch_tokens, pieces)
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
        """The share of padded positions, over both sides, in the first epoch, or its first portion."""
        store, plan = self._planned(0, 0)
        words = sum(int(store.lengths(side, rows.numbers).sum()) + len(rows.numbers) for rows in plan for side in SIDES)
        return 1.0 - words / sum(2 * len(rows.numbers) * rows.room for rows in plan)

    @cached_property
    def words_per_epoch(self) -> int:
        """Target words, END included, of the first epoch; about, where it has several portions."""
        store, plan = self._planned(0, 0)
        return round(self._portions * sum(_words(store, rows) for rows in plan))

    @cached_property
    def steps_per_epoch(self) -> int:
        """Steps of the first epoch; about, where it has several portions."""
        return round(self._portions * -(-len(self._planned(0, 0)[1]) // self.pieces))

    def steps(self, start: Position = BEGINNING, *, rank: int = 0, size: int = 1) -> Iterator[Planned]:
        """The steps from `start` on, without end; the same whether one starts there or arrives.

        Of `size` processes each gets the pieces that are its own: every `size`-th, from its `rank` on.
        """
        epoch, first, portion = start
        while True:
            store, plan = self._planned(epoch, portion)
            count = -(-len(plan) // self.pieces)
            next_portion = Position(epoch, 0, portion + 1) if portion + 1 < self._portions else Position(epoch + 1)
            for step in range(first, count):
                rows = plan[step * self.pieces : (step + 1) * self.pieces]
                after = Position(epoch, step + 1, portion) if step + 1 < count else next_portion
                words = sum(_words(store, piece) for piece in rows)
                own = [_assembled(store, piece) for piece in rows[rank::size]]
                yield Planned(epoch, own, len(rows), words, after)
            epoch, first, portion = next_portion
            del store, plan  # before the next are made

    def _fitted(self, rungs: int) -> Ids:
        """Rungs for the lengths of the first portion; the last holds the longest pair of any."""
        first = self.store.in_epoch(self.seed, 0)
        counts = np.bincount(_lengths(first, self._numbers(0, 0)), minlength=self.store.longest + 2).astype(float)
        # With subword dropout another epoch may have this length, if the first has not.
        counts[self.store.longest + 1] += np.finfo(float).tiny
        return fitted_rungs(counts, rungs)

    def _planned(self, epoch: int, portion: int) -> tuple[Store, list[Rows]]:
        """The store of an epoch, and the pieces of one of its portions in their order; the latest are kept."""
        if self._latest is None or self._latest[0] != (epoch, portion):
            self._latest = None  # an epoch's store may be files of its own
            self._latest = (epoch, portion), self._plan(epoch, portion)
        return self._latest[1]

    def _plan(self, epoch: int, portion: int) -> tuple[Store, list[Rows]]:
        store = self.store.in_epoch(self.seed, epoch)
        random = np.random.default_rng([self.seed, epoch, portion] if portion else [self.seed, epoch])
        numbers = random.permutation(self._numbers(epoch, portion))
        lengths = _lengths(store, numbers)
        rung = np.searchsorted(self._rungs, lengths)
        order = np.argsort(rung, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(rung))[:-1])
        pieces: list[Rows] = []
        left = order[:0]
        for group, rows, room in zip(groups, self._rows.tolist(), self._rungs.tolist()):
            pool = np.concatenate([left, group])
            whole = len(pool) // rows * rows
            pieces += [Rows(piece, room) for piece in numbers[pool[:whole]].reshape(-1, rows)]
            left = pool[whole:]
        if len(left):
            needed = np.searchsorted(self._rungs, lengths[left].max())
            pieces.append(Rows(numbers[left], int(self._rungs[needed])))
        return store, [pieces[place] for place in random.permutation(len(pieces))]

    def _numbers(self, epoch: int, portion: int) -> Ids:
        """The pairs of a portion: of each corpus as many uses as it weighs, of a fraction a random choice."""
        bounds = [self._uses * place // self._portions for place in (portion, portion + 1)]
        places = np.arange(*bounds)
        if self._portions > 1:
            places = scattered(places, self._uses, [self.seed, epoch])
        chosen, start, pairs_before = [], 0, 0
        for part in self.store.parts:
            uses = _uses(part)
            if not uses:
                continue
            places_here = places[(places >= start) & (places < start + uses)] - start
            whole = int(part.weight) * part.pairs
            numbers = places_here % part.pairs
            fraction = places_here >= whole
            numbers[fraction] = scattered(numbers[fraction], part.pairs, [self.seed, epoch, pairs_before])
            chosen.append(pairs_before + numbers)
            start, pairs_before = start + uses, pairs_before + part.pairs
        return np.concatenate(chosen)

    @property
    def _uses(self) -> int:
        """How often an epoch uses a pair."""
        return sum(map(_uses, self.store.parts))

    @property
    def _portions(self) -> int:
        return -(-self._uses // PORTION)


def _uses(part: Part) -> int:
    """How often an epoch uses a pair of this part; at least once, if it has one."""
    if not part.pairs:
        return 0
    return max(1, int(part.weight) * part.pairs + round(part.weight % 1.0 * part.pairs))


def scattered(places: Ids, size: int, key: Sequence[int]) -> Ids:
    """Where each of `places` comes to lie in a shuffled row of `size`, which is never in memory.

    A Feistel network (Luby and Rackoff 1988) shuffles a power of four; who lands outside goes on until he is inside.
    """
    bits = -(-max(1, (size - 1).bit_length()) // 2)
    half, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    keys = np.random.default_rng(list(key)).integers(1 << 63, size=4).astype(np.uint64)

    def moved(found: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = found >> half, found & mask
        for each in keys:
            left, right = right, left ^ (hashed(right ^ each) & mask)
        return left << half | right

    found = moved(places.astype(np.uint64))
    while (outside := found >= size).any():
        found[outside] = moved(found[outside])
    return found.astype(np.int64)


def _lengths(store: Store, numbers: Ids) -> NDArray[np.int64]:
    """The positions that each pair takes on its longer side, the symbol included."""
    return np.maximum(store.lengths("source", numbers), store.lengths("target", numbers)) + 1


def _words(store: Store, rows: Rows) -> int:
    return int(store.lengths("target", rows.numbers).sum()) + len(rows.numbers)


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


def sentence_batches(lengths: NDArray[np.integer[Any]], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Numbers of sentences, batch by batch, the longest first: rows × longest is at most `batch_tokens`.

    A sentence longer than that is a batch of its own. Every sentence is in exactly one batch.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches, start = [], 0
    while start < len(order):
        rows = max(1, batch_tokens // max(1, int(lengths[order[start]])))
        batches.append(order[start : start + rows])
        start += rows
    return batches
