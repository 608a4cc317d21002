"""The planner: assigns pairs to micro-batches and micro-batches to steps, from any position in the data.

Lengths are rounded up to the lengths of a few buckets, which are fitted to the corpus, so that there are few shapes and
little padding (section 5.1 of the paper batches "by approximate sequence length"). A pair belongs to the smallest
bucket that holds both its sides; each bucket has a fixed number of rows per micro-batch. Pairs that do not fill a
micro-batch move up to the next bucket, so that only one micro-batch of a portion has fewer rows. The order is a
function of the seed and the epoch.

A large corpus is planned in portions, which are shuffled without an array of all pairs, so that a run begins
within seconds on a store of any size.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.corpus.batch_ramp import BatchRamp
from transduce.corpus.store.token_store import SIDES, CorpusPart, Side, TokenStore
from transduce.text.bpe_dropout import hash_numbers
from transduce.text.byte_level import BEGIN, END

Ids = NDArray[np.int64]

PORTION = 1 << 21
"""Most pairs that are planned at a time."""

MICRO_BATCH_POSITIONS = 4096
"""Approximate number of positions on each side of a micro-batch, including padding, if `micro_batches` is "auto"."""


class Position(NamedTuple):
    """A position in the data between two steps: `step` steps of `portion` of `epoch` are done.

    During a ramp of the step size, `step` counts full-size steps, and `part` parts of the next one are done.
    """

    epoch: int = 0
    step: int = 0
    portion: int = 0
    part: int = 0


class MicroBatch(NamedTuple):
    """Pairs of sentences, one padded array for each side; 0 is padding."""

    source: Ids
    """[batch, source]: tokens, END."""
    target_in: Ids
    """[batch, target]: BEGIN, tokens."""
    target_out: Ids
    """[batch, target]: tokens, END."""


class PlannedStep(NamedTuple):
    """The micro-batches of a step, the token count that divides its loss, and the position after the step."""

    epoch: int
    micro_batches: list[MicroBatch]
    """The micro-batches of one process."""
    micro_batch_count: int
    """The number of micro-batches of all processes."""
    tokens: int
    """Target tokens of the micro-batches of all processes, END included."""
    position: Position


BEGINNING = Position()


class PlannedMicroBatch(NamedTuple):
    """The numbers of the pairs of a micro-batch, and the length to which they are padded."""

    numbers: Ids
    length: int


def micro_batches_per_step(batch_tokens: int, micro_batches: int | Literal["auto"]) -> int:
    """Returns the number of micro-batches in a step; "auto" gives micro-batches of about 4,096 positions."""
    return max(1, batch_tokens // MICRO_BATCH_POSITIONS) if micro_batches == "auto" else micro_batches


class Planner:
    """Plans the steps of a run on a store.

    `batch_tokens` bounds the source and the target positions of a step, padding included. With a `BatchRamp` the first
    steps are halves, quarters and so on of a full-size step. `micro_batches` is the number of micro-batches of a step,
    or "auto" (`micro_batches_per_step`); the last step of an epoch may have fewer. The lengths of at most `buckets`
    buckets are multiples of `length_multiple`, because attention on a GPU needs multiples of 8; only the longest bucket
    may be shorter, if the multiple would exceed a micro-batch or the model's `max_positions`. Raises ValueError for a
    pair that does not fit into a micro-batch.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        batch_tokens: int | BatchRamp,
        micro_batches: int | Literal["auto"],
        buckets: int = 12,
        seed: int,
        length_multiple: int = 1,
        max_positions: int | None = None,
    ) -> None:
        self.store = store
        self.seed = seed
        self._length_multiple = length_multiple
        self._uses = sum(map(_uses, store.parts))  # pairs that an epoch uses, including repetitions
        self._portions = -(-self._uses // PORTION)
        self._latest: tuple[tuple[int, int], tuple[TokenStore, list[PlannedMicroBatch]]] | None = None
        self.ramp = batch_tokens if isinstance(batch_tokens, BatchRamp) else None
        batch_tokens = batch_tokens.end if isinstance(batch_tokens, BatchRamp) else batch_tokens
        self._batch_tokens, self.micro_batches = batch_tokens, micro_batches_per_step(batch_tokens, micro_batches)
        budget = batch_tokens // self.micro_batches
        longest = store.max_length + 1
        if longest > budget:
            raise ValueError(
                f"training.batch_tokens: the longest pair takes {longest} positions, a micro-batch has {budget} "
                f"({batch_tokens} in {self.micro_batches} micro-batches); take at least "
                f"{longest * self.micro_batches}, fewer micro-batches, or a smaller data.max_length"
            )
        self._length_limit = max(longest, min(budget, max_positions or budget) // length_multiple * length_multiple)
        self._buckets = self._fit_buckets(buckets)
        self._rows = np.array([self.rows_with(self.micro_batches, length) for length in self._buckets.tolist()])

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(rows, length) of the micro-batches of each bucket; one micro-batch of a portion has fewer rows."""
        return list(zip(self._rows.tolist(), self._buckets.tolist(), strict=True))

    def rows_with(self, micro_batches: int, length: int) -> int:
        """Returns the number of pairs in a micro-batch of this length if a step has `micro_batches` micro-batches."""
        rows = self._batch_tokens // micro_batches // length
        return rows // 8 * 8 if rows >= 8 else rows

    @cached_property
    def padding(self) -> float:
        """Share of padding in the positions of both sides, in the first portion of the first epoch."""
        store, plan = self._planned(0, 0)
        tokens = sum(_token_count(store, side, planned) for planned in plan for side in SIDES)
        return 1.0 - tokens / sum(2 * len(planned.numbers) * planned.length for planned in plan)

    @cached_property
    def tokens_per_epoch(self) -> int:
        """Target tokens of the first epoch, END included; an estimate if an epoch has several portions."""
        store, plan = self._planned(0, 0)
        return round(self._portions * sum(_token_count(store, "target", planned) for planned in plan))

    @cached_property
    def steps_per_epoch(self) -> int:
        """Number of steps with a full batch in the first epoch; an estimate if an epoch has several portions."""
        return round(self._portions * -(-len(self._planned(0, 0)[1]) // self.micro_batches))

    def steps(
        self, start: Position = BEGINNING, *, after: int = 0, rank: int = 0, size: int = 1
    ) -> Iterator[PlannedStep]:
        """Yields the steps from `start` on, indefinitely; they are the same steps as after `start` in an earlier call.

        `after` is the number of steps that the run has done, on which the step size depends during a ramp. Of `size`
        processes, the process with this `rank` gets every `size`-th micro-batch of a step, from number `rank` on.
        """
        epoch, first, portion, part = start
        while True:
            store, plan = self._planned(epoch, portion)
            count = -(-len(plan) // self.micro_batches)
            next_portion = Position(epoch, 0, portion + 1) if portion + 1 < self._portions else Position(epoch + 1)
            for step in range(first, count):
                whole = plan[step * self.micro_batches : (step + 1) * self.micro_batches]
                next_step = Position(epoch, step + 1, portion) if step + 1 < count else next_portion
                for planned, next_part in self._parts(whole, part, after):
                    after += 1
                    position = next_step if next_part is None else Position(epoch, step, portion, next_part)
                    tokens = sum(_token_count(store, "target", micro_batch) for micro_batch in planned)
                    own = [_assemble(store, micro_batch) for micro_batch in planned[rank::size]]
                    yield PlannedStep(epoch, own, len(planned), tokens, position)
                part = 0
            epoch, first, portion, part = next_portion
            del store, plan  # frees their memory before the next portion is planned

    def _parts(
        self, whole: list[PlannedMicroBatch], part: int, after: int
    ) -> Iterator[tuple[list[PlannedMicroBatch], int | None]]:
        """Cuts a full-size step into the smaller steps of the ramp after step `after`.

        Yields each step and the part after it, or None after the last part. `part` is the first part that is left. A
        step ends at a multiple of its size, so that steps fill full-size steps after each doubling (drawn at
        `BatchRamp`). Parts without a pair are skipped; the last part always has one.
        """
        if self.ramp is None:
            yield whole, None
            return
        while part < self.ramp.parts:
            size = self.ramp.parts_of(after + 1)
            end = (part // size + 1) * size
            if planned := _cut(whole, part, end, self.ramp.parts):
                after += 1
                yield planned, end if end < self.ramp.parts else None
            part = end

    def _fit_buckets(self, buckets: int) -> Ids:
        """Fits the bucket lengths to the first portion; the last bucket holds the longest pair of all portions."""
        first = self.store.in_epoch(self.seed, 0)
        lengths = _lengths(first, self._numbers(0, 0))
        # With subword dropout a later epoch may have a longer pair than the first.
        last = int(self._round_up(np.array(self.store.max_length + 1)))
        counts = np.bincount(self._round_up(lengths), minlength=last + 1).astype(float)
        counts[last] += np.finfo(float).tiny
        return fit_buckets(counts, buckets)

    def _round_up(self, lengths: Ids) -> Ids:
        """Rounds lengths up to a multiple of `length_multiple`, at most to the length limit."""
        return np.minimum(-(-lengths // self._length_multiple) * self._length_multiple, self._length_limit)

    def _planned(self, epoch: int, portion: int) -> tuple[TokenStore, list[PlannedMicroBatch]]:
        """Returns the store of an epoch and the planned micro-batches of a portion; caches the latest plan."""
        if self._latest is None or self._latest[0] != (epoch, portion):
            self._latest = None  # frees the files of the last epoch's store
            self._latest = (epoch, portion), self._plan(epoch, portion)
        return self._latest[1]

    def _plan(self, epoch: int, portion: int) -> tuple[TokenStore, list[PlannedMicroBatch]]:
        """Shuffles the pairs of a portion, fills the micro-batches of each bucket, and shuffles the micro-batches."""
        store = self.store.in_epoch(self.seed, epoch)
        random = np.random.default_rng([self.seed, epoch, portion] if portion else [self.seed, epoch])
        numbers = random.permutation(self._numbers(epoch, portion))
        lengths = _lengths(store, numbers)
        bucket = np.searchsorted(self._buckets, lengths)
        order = np.argsort(bucket, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(bucket))[:-1])
        micro_batches: list[PlannedMicroBatch] = []
        rest = order[:0]
        # A portion without long sentences has fewer groups than there are buckets.
        for group, rows, length in zip(groups, self._rows.tolist(), self._buckets.tolist(), strict=False):
            pool = np.concatenate([rest, group])
            used = len(pool) // rows * rows
            micro_batches += [PlannedMicroBatch(row, length) for row in numbers[pool[:used]].reshape(-1, rows)]
            rest = pool[used:]
        if len(rest):
            smallest = np.searchsorted(self._buckets, lengths[rest].max())
            micro_batches.append(PlannedMicroBatch(numbers[rest], int(self._buckets[smallest])))
        return store, [micro_batches[index] for index in random.permutation(len(micro_batches))]

    def _numbers(self, epoch: int, portion: int) -> Ids:
        """Returns the numbers of the pairs in a portion.

        All pairs of a corpus are used as often as the integer part of its weight says, and a random subset once more,
        according to the fraction.
        """
        bounds = [self._uses * place // self._portions for place in (portion, portion + 1)]
        places = np.arange(*bounds)
        if self._portions > 1:
            places = shuffled_places(places, self._uses, [self.seed, epoch])
        numbers_of_parts, start, pairs_before = [], 0, 0
        for part in self.store.parts:
            uses = _uses(part)
            if not uses:
                continue
            places_in_part = places[(places >= start) & (places < start + uses)] - start
            numbers = places_in_part % part.pairs
            is_fraction = places_in_part >= int(part.weight) * part.pairs
            numbers[is_fraction] = shuffled_places(numbers[is_fraction], part.pairs, [self.seed, epoch, pairs_before])
            numbers_of_parts.append(pairs_before + numbers)
            start, pairs_before = start + uses, pairs_before + part.pairs
        return np.concatenate(numbers_of_parts)


def fit_buckets(counts: NDArray[Any], buckets: int) -> Ids:
    """Returns at most `buckets` bucket lengths with the least padding.

    `counts[length]` is the number of sequences of a length. Dynamic programming: the least cost of k buckets for all
    sequences up to a length is the minimum, over all shorter lengths, of the least cost of k − 1 buckets up to the
    shorter length plus the cost of one bucket for the sequences between.
    """
    lengths = np.flatnonzero(counts)
    counts_below = np.concatenate([[0], np.cumsum(counts[lengths])])
    # cost[first, last]: the positions of a bucket of length `last` for the sequences from length `first` on.
    cost = lengths * (counts_below[None, 1:] - counts_below[:-1, None]).astype(float)
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


def _cut(whole: list[PlannedMicroBatch], begin: int, end: int, parts: int) -> list[PlannedMicroBatch]:
    """Returns the micro-batches, or some of their rows, from part `begin` to `end` of a step with `parts` parts."""
    cut = []
    for index, micro_batch in enumerate(whole):
        rows = len(micro_batch.numbers)
        first, last = (rows * min(max(bound * len(whole) - index * parts, 0), parts) // parts for bound in (begin, end))
        if first < last:
            cut.append(micro_batch._replace(numbers=micro_batch.numbers[first:last]))
    return cut


def _uses(part: CorpusPart) -> int:
    """Returns how many pairs of a part an epoch uses, including repetitions; at least 1 if the part has a pair."""
    if not part.pairs:
        return 0
    return max(1, int(part.weight) * part.pairs + round(part.weight % 1.0 * part.pairs))


def shuffled_places(places: Ids, size: int, key: Sequence[int]) -> Ids:
    """Returns where a random permutation of `size` places, chosen by `key`, moves each of `places`.

    A Feistel network (Luby and Rackoff 1988) permutes a power of four without storing the permutation. Results of
    `size` or more are permuted again until they are smaller.
    """
    bits = -(-max(1, (size - 1).bit_length()) // 2)
    half, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    round_keys = np.random.default_rng(list(key)).integers(1 << 63, size=4).astype(np.uint64)

    def permute(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> half, values & mask
        for round_key in round_keys:
            left, right = right, left ^ (hash_numbers(right ^ round_key) & mask)
        return left << half | right

    permuted = permute(places.astype(np.uint64))
    while (outside := permuted >= size).any():
        permuted[outside] = permute(permuted[outside])
    return permuted.astype(np.int64)


def _lengths(store: TokenStore, numbers: Ids) -> NDArray[np.int64]:
    """Returns the positions that each pair takes on its longer side, including END."""
    return np.maximum(store.lengths("source", numbers), store.lengths("target", numbers)) + 1


def _token_count(store: TokenStore, side: Side, planned: PlannedMicroBatch) -> int:
    """Returns the number of tokens on one side of a micro-batch, including END."""
    return int(store.lengths(side, planned.numbers).sum()) + len(planned.numbers)


def _assemble(store: TokenStore, planned: PlannedMicroBatch) -> MicroBatch:
    """Reads the sentences of a micro-batch, pads them and adds BEGIN and END."""
    rows = np.arange(len(planned.numbers))
    source, lengths = store.padded("source", planned.numbers, planned.length)
    source[rows, lengths] = END
    target, lengths = store.padded("target", planned.numbers, planned.length)
    target_in = np.concatenate([np.full((len(rows), 1), BEGIN), target[:, :-1]], axis=1)
    target[rows, lengths] = END
    return MicroBatch(source, target_in, target)
