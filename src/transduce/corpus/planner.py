"""The planner: assigns pairs to micro-batches and micro-batches to steps, starting from any position in the data.

As in the paper (section 5.1), pairs of similar length are batched together. Lengths are rounded up to the lengths of a
few buckets, which are fitted to the corpus, so that there are few different shapes and little padding. A pair belongs
to the smallest bucket that holds both of its sides, and each bucket has a fixed number of rows per micro-batch. Pairs
that do not fill a micro-batch move up to the next bucket, so that only one micro-batch of a portion has fewer rows. The
order of the pairs depends only on the seed and the epoch.

A large corpus is planned in portions. They are shuffled without an array of all pairs, so that a run starts within
seconds on a store of any size.
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
"""The maximum number of pairs that are planned at a time."""

MICRO_BATCH_POSITIONS = 4096
"""The approximate number of positions on each side of a micro-batch if `micro_batches` is "auto", including padding."""


class Position(NamedTuple):
    """A position in the data between two steps: `step` steps of a portion of an epoch have been completed.

    During a ramp of the batch size, `step` counts full-size steps, and `part` is the number of parts of the next
    full-size step that have been completed.
    """

    epoch: int = 0
    step: int = 0
    portion: int = 0
    part: int = 0


class MicroBatch(NamedTuple):
    """Sentence pairs as arrays of token ids, in which 0 is padding."""

    source: Ids
    """The source tokens followed by EOS [batch, source]."""
    target_in: Ids
    """BOS followed by the target tokens [batch, target]."""
    target_out: Ids
    """The target tokens followed by EOS [batch, target]."""


class PlannedStep(NamedTuple):
    """The micro-batches of a step, the token count by which its loss is divided, and the position after the step."""

    epoch: int
    micro_batches: list[MicroBatch]
    """The micro-batches that this process computes."""
    micro_batch_count: int
    """The number of micro-batches over all processes."""
    tokens: int
    """The number of target tokens in the micro-batches of all processes, including EOS."""
    position: Position


BEGINNING = Position()


class PlannedMicroBatch(NamedTuple):
    """The indices of the pairs in a micro-batch, and the length to which their sentences are padded."""

    numbers: Ids
    length: int


def micro_batches_per_step(batch_tokens: int, micro_batches: int | Literal["auto"]) -> int:
    """Returns the number of micro-batches in a step.

    If `micro_batches` is "auto", each micro-batch has about 4,096 positions on each side.
    """
    return max(1, batch_tokens // MICRO_BATCH_POSITIONS) if micro_batches == "auto" else micro_batches


class Planner:
    """Plans the steps of a run that trains on a store.

    `batch_tokens` is the maximum number of positions in a step, including padding, for each of the two sides. With a
    `BatchRamp`, the first steps have a half, a quarter and so on of this size. `micro_batches` is the number of
    micro-batches in a step, or "auto" (see `micro_batches_per_step`). The last step of a portion may have fewer.

    There are at most `buckets` buckets. Their lengths are multiples of `length_multiple`, because attention on a GPU
    needs multiples of 8. Only the longest bucket may have a different length, if the multiple would exceed the size of
    a micro-batch or the model's `max_positions`. Raises ValueError if a pair does not fit in a micro-batch.
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
        """The shape (rows, length) of the micro-batches in each bucket.

        One micro-batch of each portion may have fewer rows.
        """
        return list(zip(self._rows.tolist(), self._buckets.tolist(), strict=True))

    def rows_with(self, micro_batches: int, length: int) -> int:
        """Returns the number of pairs in a micro-batch of this length if a step has `micro_batches` micro-batches.

        The number is rounded down to a multiple of 8, unless it is less than 8.
        """
        rows = self._batch_tokens // micro_batches // length
        return rows // 8 * 8 if rows >= 8 else rows

    @cached_property
    def padding(self) -> float:
        """The share of padding in the positions of both sides, measured on the first portion of the first epoch."""
        store, plan = self._planned(0, 0)
        tokens = sum(_token_count(store, side, planned) for planned in plan for side in SIDES)
        return 1.0 - tokens / sum(2 * len(planned.numbers) * planned.length for planned in plan)

    @cached_property
    def tokens_per_epoch(self) -> int:
        """The number of target tokens in the first epoch, including EOS.

        If an epoch has several portions, the number is estimated from the first one.
        """
        store, plan = self._planned(0, 0)
        return round(self._portions * sum(_token_count(store, "target", planned) for planned in plan))

    @cached_property
    def steps_per_epoch(self) -> int:
        """The number of full-size steps in the first epoch.

        If an epoch has several portions, the number is estimated from the first one.
        """
        return round(self._portions * -(-len(self._planned(0, 0)[1]) // self.micro_batches))

    def steps(
        self, start: Position = BEGINNING, *, after: int = 0, rank: int = 0, size: int = 1
    ) -> Iterator[PlannedStep]:
        """Yields the steps from `start` on, indefinitely.

        The steps after a position are the same in every call, so a run can be resumed at any position. `after` is the
        number of steps that the run has already done, which determines the batch size during a ramp. If there are
        `size` processes, the process with this `rank` gets every `size`-th micro-batch of each step, beginning with the
        index `rank`.
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
        """Cuts a full-size step into the smaller steps of a batch-size ramp. Without a ramp, the step is not cut.

        Yields each smaller step and the index of the part that follows it, or None after the last part. `part` is the
        first part that has not been done, and `after` is the number of steps that the run has done. A step ends at a
        multiple of its size, so that steps still fill full-size steps when the size doubles (see the diagram in
        `BatchRamp`). Parts without pairs are skipped. The last part always has pairs.
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
        """Fits the bucket lengths to the first portion. The last bucket holds the longest pair of all portions."""
        first = self.store.in_epoch(self.seed, 0)
        lengths = _lengths(first, self._numbers(0, 0))
        # With subword dropout a later epoch may have a longer pair than the first.
        last = int(self._round_up(np.array(self.store.max_length + 1)))
        counts = np.bincount(self._round_up(lengths), minlength=last + 1).astype(float)
        counts[last] += np.finfo(float).tiny
        return fit_buckets(counts, buckets)

    def _round_up(self, lengths: Ids) -> Ids:
        """Rounds lengths up to a multiple of `length_multiple`, but at most to the length limit."""
        return np.minimum(-(-lengths // self._length_multiple) * self._length_multiple, self._length_limit)

    def _planned(self, epoch: int, portion: int) -> tuple[TokenStore, list[PlannedMicroBatch]]:
        """Returns the store as it is encoded in an epoch, and the planned micro-batches of a portion.

        The latest plan is cached.
        """
        if self._latest is None or self._latest[0] != (epoch, portion):
            self._latest = None  # frees the files of the previous epoch's store
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
        """Returns the indices of the pairs in a portion.

        The weight of a corpus is the number of times that an epoch uses its pairs. All pairs are used as many times as
        the integer part of the weight says. The fractional part is the share of pairs, chosen at random, that are used
        once more.
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
    """Returns the lengths of at most `buckets` buckets, chosen so that there is as little padding as possible.

    `counts[length]` is the number of sequences with this length. The lengths are found by dynamic programming: the
    minimum cost of k buckets for all sequences up to a length is the minimum, over all shorter lengths, of the cost of
    k − 1 buckets up to the shorter length plus the cost of one bucket for the sequences in between.
    """
    lengths = np.flatnonzero(counts)
    counts_below = np.concatenate([[0], np.cumsum(counts[lengths])])
    # cost[first, last]: the number of positions if the sequences from length `first` to `last` share a bucket.
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
    """Returns the micro-batches from part `begin` to part `end` of a step that has `parts` parts.

    A micro-batch that is only partly within these bounds is cut between two rows.
    """
    cut = []
    for index, micro_batch in enumerate(whole):
        rows = len(micro_batch.numbers)
        first, last = (rows * min(max(bound * len(whole) - index * parts, 0), parts) // parts for bound in (begin, end))
        if first < last:
            cut.append(micro_batch._replace(numbers=micro_batch.numbers[first:last]))
    return cut


def _uses(part: CorpusPart) -> int:
    """Returns the number of pairs that an epoch uses from a part, counting repetitions.

    The number is at least 1 unless the part is empty.
    """
    if not part.pairs:
        return 0
    return max(1, int(part.weight) * part.pairs + round(part.weight % 1.0 * part.pairs))


def shuffled_places(places: Ids, size: int, key: Sequence[int]) -> Ids:
    """Returns the places to which a random permutation of `size` elements, chosen by `key`, moves each of `places`.

    A Feistel network (Luby and Rackoff 1988) permutes a power of four without storing the permutation. Results that are
    not less than `size` are permuted again until they are (cycle walking).
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
    """Returns the number of positions that each pair takes on its longer side, including EOS."""
    return np.maximum(store.lengths("source", numbers), store.lengths("target", numbers)) + 1


def _token_count(store: TokenStore, side: Side, planned: PlannedMicroBatch) -> int:
    """Returns the number of tokens on one side of a micro-batch, including EOS."""
    return int(store.lengths(side, planned.numbers).sum()) + len(planned.numbers)


def _assemble(store: TokenStore, planned: PlannedMicroBatch) -> MicroBatch:
    """Reads the sentences of a micro-batch, pads them, and adds BOS and EOS."""
    rows = np.arange(len(planned.numbers))
    source, lengths = store.padded("source", planned.numbers, planned.length)
    source[rows, lengths] = END
    target, lengths = store.padded("target", planned.numbers, planned.length)
    target_in = np.concatenate([np.full((len(rows), 1), BEGIN), target[:, :-1]], axis=1)
    target[rows, lengths] = END
    return MicroBatch(source, target_in, target)
