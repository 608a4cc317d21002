"""The planner: which pairs make a micro-batch, which micro-batches a step, in which order, from any position.

Lengths are rounded up to those of a few buckets, which are fitted to the corpus: there are few shapes and little
padding (section 5.1 of the paper batches "by approximate sequence length"). A pair belongs to the smallest bucket that
holds both its sides; a micro-batch is so many rows of one bucket. Pairs that fill no whole micro-batch move up to the
next bucket, so that one micro-batch an epoch is ragged. The order is a function of the seed and the epoch.

A large corpus is planned a portion at a time, shuffled without being laid out, so that a training begins within seconds
on a store of any size.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.corpus.micro_batch import Ids, MicroBatch, PlannedStep, Position
from transduce.corpus.token_store import SIDES, CorpusPart, TokenStore
from transduce.text.bpe_dropout import hash_numbers
from transduce.text.subwords import BEGIN, END

__all__ = ["Planner", "fit_buckets", "shuffled_places"]

PORTION = 1 << 21
"""Pairs, at most, that are put in order at a time."""

MICRO_BATCH_POSITIONS = 4096
"""Padded positions a side, about, of a micro-batch where their number is left to the planner."""

BEGINNING = Position()


class PlannedMicroBatch(NamedTuple):
    """A micro-batch before it is assembled: which pairs, and to which length they are padded."""

    numbers: Ids
    room: int


def micro_batches_per_step(batch_tokens: int, micro_batches: int | Literal["auto"]) -> int:
    """As many as are asked for; "auto" makes them of about 4,096 positions."""
    return max(1, batch_tokens // MICRO_BATCH_POSITIONS) if micro_batches == "auto" else micro_batches


class Planner:
    """Cuts a store into micro-batches and steps.

    `batch_tokens` bounds the source and the target positions of a step, padding included. `micro_batches` is their
    number in a step, as `micro_batches_per_step` has it; the last step of an epoch may have fewer. Lengths of buckets
    are rounded up to a multiple of `length_multiple`, because attention on a GPU needs multiples of 8; only the longest
    bucket may be shorter, where a micro-batch or the model's `max_length` positions have no room for the multiple.
    Raises `ValueError` for a pair that does not fit into a micro-batch.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        batch_tokens: int,
        micro_batches: int | Literal["auto"],
        buckets: int = 12,
        seed: int,
        length_multiple: int = 1,
        max_length: int | None = None,
    ) -> None:
        self.store = store
        self.seed = seed
        self._length_multiple = length_multiple
        self._latest: tuple[tuple[int, int], tuple[TokenStore, list[PlannedMicroBatch]]] | None = None
        self.micro_batches = micro_batches_per_step(batch_tokens, micro_batches)
        budget = batch_tokens // self.micro_batches
        longest = store.longest + 1
        if longest > budget:
            raise ValueError(
                f"training.batch_tokens: the longest pair takes {longest} positions, a micro-batch has {budget} "
                f"({batch_tokens} in {self.micro_batches} micro-batches); take at least "
                f"{longest * self.micro_batches}, fewer micro-batches, or a smaller data.longest"
            )
        self._length_limit = max(longest, min(budget, max_length or budget) // length_multiple * length_multiple)
        self._buckets = self._fit_buckets(buckets)
        fitting = budget // self._buckets
        self._rows = np.where(fitting >= 8, fitting // 8 * 8, fitting)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(rows, length) of every kind of micro-batch; the ragged one has fewer rows."""
        return list(zip(self._rows.tolist(), self._buckets.tolist()))

    @cached_property
    def padding(self) -> float:
        """The share of padded positions, over both sides, in the first epoch, or its first portion."""
        store, plan = self._planned(0, 0)
        tokens = sum(
            int(store.lengths(side, rows.numbers).sum()) + len(rows.numbers) for rows in plan for side in SIDES
        )
        return 1.0 - tokens / sum(2 * len(rows.numbers) * rows.room for rows in plan)

    @cached_property
    def tokens_per_epoch(self) -> int:
        """Target tokens, END included, of the first epoch; about, where it has several portions."""
        store, plan = self._planned(0, 0)
        return round(self._portions * sum(_tokens(store, rows) for rows in plan))

    @cached_property
    def steps_per_epoch(self) -> int:
        """Steps of the first epoch; about, where it has several portions."""
        return round(self._portions * -(-len(self._planned(0, 0)[1]) // self.micro_batches))

    def steps(self, start: Position = BEGINNING, *, rank: int = 0, size: int = 1) -> Iterator[PlannedStep]:
        """The steps from `start` on, without end; the same whether one starts there or arrives.

        Of `size` processes each gets the micro-batches that are its own: every `size`-th, from its `rank` on.
        """
        epoch, first, portion = start
        while True:
            store, plan = self._planned(epoch, portion)
            count = -(-len(plan) // self.micro_batches)
            next_portion = Position(epoch, 0, portion + 1) if portion + 1 < self._portions else Position(epoch + 1)
            for step in range(first, count):
                rows = plan[step * self.micro_batches : (step + 1) * self.micro_batches]
                after = Position(epoch, step + 1, portion) if step + 1 < count else next_portion
                tokens = sum(_tokens(store, micro_batch) for micro_batch in rows)
                own = [_assembled(store, micro_batch) for micro_batch in rows[rank::size]]
                yield PlannedStep(epoch, own, len(rows), tokens, after)
            epoch, first, portion = next_portion
            del store, plan  # before the next are made

    def _fit_buckets(self, buckets: int) -> Ids:
        """Returns the bucket lengths that fit the first portion; the last holds the longest pair of all portions."""
        first = self.store.in_epoch(self.seed, 0)
        lengths = _lengths(first, self._numbers(0, 0))
        # With subword dropout another epoch may have the longest pair, if the first has not.
        last = int(self._round_up(np.array(self.store.longest + 1)))
        counts = np.bincount(self._round_up(lengths), minlength=last + 1).astype(float)
        counts[last] += np.finfo(float).tiny
        return fit_buckets(counts, buckets)

    def _round_up(self, lengths: Ids) -> Ids:
        """Rounds lengths up to the multiple, at most to the limit."""
        return np.minimum(-(-lengths // self._length_multiple) * self._length_multiple, self._length_limit)

    def _planned(self, epoch: int, portion: int) -> tuple[TokenStore, list[PlannedMicroBatch]]:
        """The store of an epoch, and the micro-batches of one of its portions in their order; the latest are kept."""
        if self._latest is None or self._latest[0] != (epoch, portion):
            self._latest = None  # an epoch's store may be files of its own
            self._latest = (epoch, portion), self._plan(epoch, portion)
        return self._latest[1]

    def _plan(self, epoch: int, portion: int) -> tuple[TokenStore, list[PlannedMicroBatch]]:
        store = self.store.in_epoch(self.seed, epoch)
        random = np.random.default_rng([self.seed, epoch, portion] if portion else [self.seed, epoch])
        numbers = random.permutation(self._numbers(epoch, portion))
        lengths = _lengths(store, numbers)
        bucket = np.searchsorted(self._buckets, lengths)
        order = np.argsort(bucket, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(bucket))[:-1])
        micro_batches: list[PlannedMicroBatch] = []
        left = order[:0]
        for group, rows, room in zip(groups, self._rows.tolist(), self._buckets.tolist()):
            pool = np.concatenate([left, group])
            whole = len(pool) // rows * rows
            micro_batches += [
                PlannedMicroBatch(micro_batch, room) for micro_batch in numbers[pool[:whole]].reshape(-1, rows)
            ]
            left = pool[whole:]
        if len(left):
            needed = np.searchsorted(self._buckets, lengths[left].max())
            micro_batches.append(PlannedMicroBatch(numbers[left], int(self._buckets[needed])))
        return store, [micro_batches[place] for place in random.permutation(len(micro_batches))]

    def _numbers(self, epoch: int, portion: int) -> Ids:
        """The pairs of a portion: of each corpus as many uses as it weighs, of a fraction a random choice."""
        bounds = [self._uses * place // self._portions for place in (portion, portion + 1)]
        places = np.arange(*bounds)
        if self._portions > 1:
            places = shuffled_places(places, self._uses, [self.seed, epoch])
        chosen, start, pairs_before = [], 0, 0
        for part in self.store.parts:
            uses = _uses(part)
            if not uses:
                continue
            places_here = places[(places >= start) & (places < start + uses)] - start
            whole = int(part.weight) * part.pairs
            numbers = places_here % part.pairs
            fraction = places_here >= whole
            numbers[fraction] = shuffled_places(numbers[fraction], part.pairs, [self.seed, epoch, pairs_before])
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


def _uses(part: CorpusPart) -> int:
    """How often an epoch uses a pair of this part; at least once, if it has one."""
    if not part.pairs:
        return 0
    return max(1, int(part.weight) * part.pairs + round(part.weight % 1.0 * part.pairs))


def shuffled_places(places: Ids, size: int, key: Sequence[int]) -> Ids:
    """Where each of `places` comes to lie in a shuffled row of `size`, which is never in memory.

    A Feistel network (Luby and Rackoff 1988) shuffles a power of four; who lands outside goes on until he is inside.
    """
    bits = -(-max(1, (size - 1).bit_length()) // 2)
    half, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    keys = np.random.default_rng(list(key)).integers(1 << 63, size=4).astype(np.uint64)

    def moved(found: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = found >> half, found & mask
        for each in keys:
            left, right = right, left ^ (hash_numbers(right ^ each) & mask)
        return left << half | right

    found = moved(places.astype(np.uint64))
    while (outside := found >= size).any():
        found[outside] = moved(found[outside])
    return found.astype(np.int64)


def _lengths(store: TokenStore, numbers: Ids) -> NDArray[np.int64]:
    """The positions that each pair takes on its longer side, the symbol included."""
    return np.maximum(store.lengths("source", numbers), store.lengths("target", numbers)) + 1


def _tokens(store: TokenStore, rows: PlannedMicroBatch) -> int:
    return int(store.lengths("target", rows.numbers).sum()) + len(rows.numbers)


def _assembled(store: TokenStore, rows: PlannedMicroBatch) -> MicroBatch:
    count = np.arange(len(rows.numbers))
    source, length = store.padded("source", rows.numbers, rows.room)
    source[count, length] = END
    tokens, length = store.padded("target", rows.numbers, rows.room)
    target_in = np.concatenate([np.full((len(count), 1), BEGIN), tokens[:, :-1]], axis=1)
    tokens[count, length] = END
    return MicroBatch(source, target_in, tokens)


def fit_buckets(counts: NDArray[Any], buckets: int) -> Ids:
    """The at most `rungs` lengths that pad least, where `counts[length]` sequences have each length.

    Dynamic programming: the cheapest way to cover all lengths up to one with k buckets is, over all shorter lengths,
    the cheapest way to cover those with k − 1 and the rest with one.
    """
    lengths = np.flatnonzero(counts)
    below = np.concatenate([[0], np.cumsum(counts[lengths])])
    # [from, to]: positions that the sequences between take on the bucket `to`; a bucket cannot end before it begins.
    cost = lengths * (below[None, 1:] - below[:-1, None]).astype(float)
    cost[np.tril_indices(len(lengths), -1)] = np.inf
    best, choices = cost[0], []
    for _ in range(min(buckets, len(lengths)) - 1):
        total = best[:-1, None] + cost[1:]
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [len(lengths) - 1]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1]]))
    return lengths[ends[::-1]].astype(np.int64)
