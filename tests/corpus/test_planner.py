"""The planner: every pair once an epoch, few shapes within the budget, little padding, resuming at any step."""

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from io import BytesIO
from itertools import combinations, islice, takewhile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import transduce.corpus.planner as planner_module
from transduce.corpus.planner import PlannedStep, Planner, Position, fit_buckets, shuffled_places
from transduce.corpus.store.token_store import FILES, CorpusPart, PackedSentences, TokenStore, TokenStoreWriter
from transduce.text.byte_level import BEGIN, END, PAD


def stored(
    folder: Path, pairs: Sequence[tuple[list[int], list[int]]], weights: Sequence[tuple[int, float]] = ()
) -> TokenStore:
    """Writes a store of `pairs`; `weights` are the number of pairs and the weight of each part."""
    buffers, dtype = {name: BytesIO() for name in FILES}, np.dtype("<u2")
    writer = TokenStoreWriter(buffers, dtype)
    writer.append("source", PackedSentences.of([source for source, _ in pairs], dtype))
    writer.append("target", PackedSentences.of([target for _, target in pairs[:10]], dtype))
    writer.append("target", PackedSentences.of([target for _, target in pairs[10:]], dtype))
    for name, buffer in buffers.items():
        (folder / name).write_bytes(buffer.getvalue())
    parts = [CorpusPart(*part) for part in weights or [(len(pairs), 1.0)]]
    return TokenStore({name: folder / name for name in FILES}, dtype, parts)


def random_pairs(count: int, seed: int = 3) -> list[tuple[list[int], list[int]]]:
    """Returns pairs of different lengths; the first source token is 10 plus the number of the pair."""
    random = np.random.default_rng(seed)
    lengths = np.minimum(random.gamma(4, 3, count).astype(int) + 1, 40)
    return [
        (
            [10 + number, *random.integers(3, 9, length).tolist()],
            random.integers(3, 9, max(1, length + number % 3 - 1)).tolist(),
        )
        for number, length in enumerate(lengths.tolist())
    ]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[list[int], list[int]]]:
    return random_pairs(1500)


@pytest.fixture(scope="module")
def store(pairs: list[tuple[list[int], list[int]]], tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return stored(tmp_path_factory.mktemp("store"), pairs)


def epoch(planner: Planner, number: int = 0) -> Iterator[PlannedStep]:
    return takewhile(lambda step: step.epoch == number, planner.steps(Position(number)))


def numbers(steps: Iterator[PlannedStep]) -> list[int]:
    """Returns the numbers of the pairs of steps, in order."""
    return [int(row[0]) - 10 for step in steps for micro_batch in step.micro_batches for row in micro_batch.source]


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1000, 4097])
def test_shuffling_is_a_permutation_chosen_by_the_key(size: int) -> None:
    places = np.arange(size)
    shuffled = shuffled_places(places, size, [1, 2])
    assert sorted(shuffled.tolist()) == places.tolist()
    assert shuffled_places(places[::-2], size, [1, 2]).tolist() == shuffled[::-2].tolist()
    if size > 100:
        assert shuffled_places(places, size, [1, 3]).tolist() != shuffled.tolist()
        # Half of the neighbours rise, and half of the first places are above the middle.
        assert 0.45 < float((np.diff(shuffled) > 0).mean()) < 0.55
        assert 0.4 < float((shuffled[: size // 2] > size / 2).mean()) < 0.6


@pytest.mark.parametrize("weights", [[(1500, 1.0)], [(500, 2.0), (1000, 0.5)]])
def test_a_large_corpus_is_planned_in_portions(
    store: TokenStore, weights: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_module, "PORTION", 400)
    store = copy(store)
    store.parts = tuple(CorpusPart(*part) for part in weights)
    planner = Planner(store, batch_tokens=700, micro_batches=2, seed=1)
    steps = list(epoch(planner))
    uses = Counter(numbers(iter(steps)))
    assert sum(uses.values()) == 1500
    assert {uses[pair] for pair in range(500)} == {int(weights[0][1])}
    assert max(uses.values()) == int(weights[0][1])
    assert {step.position.portion for step in steps} == {0, 1, 2, 3}
    first = numbers(step for step in steps[:20])
    assert numbers(islice(epoch(planner, 1), 20)) != first
    for place in (0, 7, len(steps) // 2, len(steps) - 1):
        following = next(planner.steps(steps[place].position))
        expected = [*steps, *islice(epoch(planner, 1), 1)][place + 1]
        assert numbers(iter([following])) == numbers(iter([expected]))
    assert planner.steps_per_epoch == pytest.approx(len(steps), rel=0.1)
    assert planner.tokens_per_epoch == pytest.approx(sum(step.tokens for step in steps), rel=0.1)


def test_processes_share_the_micro_batches_of_a_step(store: TokenStore) -> None:
    planner = Planner(store, batch_tokens=1400, micro_batches=5, seed=1)
    for whole, *shared in zip(epoch(planner), *(planner.steps(rank=rank, size=3) for rank in range(3))):
        assert {(step.tokens, step.micro_batch_count, step.position) for step in (whole, *shared)} == {
            (whole.tokens, len(whole.micro_batches), whole.position)
        }
        for index, micro_batch in enumerate(whole.micro_batches):
            np.testing.assert_array_equal(shared[index % 3].micro_batches[index // 3].source, micro_batch.source)


def test_micro_batches_hold_the_pairs_with_their_symbols(
    store: TokenStore, pairs: list[tuple[list[int], list[int]]]
) -> None:
    def tokens(row: np.ndarray) -> list[int]:
        return [token for token in row.tolist() if token != PAD]

    for step in epoch(Planner(store, batch_tokens=700, micro_batches=2, buckets=5, seed=1)):
        for micro_batch in step.micro_batches:
            assert micro_batch.source.dtype == micro_batch.target_in.dtype == micro_batch.target_out.dtype == np.int64
            assert micro_batch.target_in.shape == micro_batch.target_out.shape == micro_batch.source.shape
            for row, begun, ended in zip(micro_batch.source, micro_batch.target_in, micro_batch.target_out):
                source, target = pairs[int(row[0]) - 10]
                assert tokens(row) == [*source, END] == row[: len(source) + 1].tolist()
                assert tokens(begun) == [BEGIN, *target] == begun[: len(target) + 1].tolist()
                assert tokens(ended) == [*target, END] == ended[: len(target) + 1].tolist()
        assert step.tokens == sum(int((micro_batch.target_out != PAD).sum()) for micro_batch in step.micro_batches)


@pytest.mark.parametrize(
    ("pair_length", "max_positions", "longest_bucket"),
    [(40, None, 48), (39, None, 40), (40, 44, 41), (40, 48, 48)],
)
def test_bucket_lengths_are_multiples_of_eight_on_a_gpu(
    tmp_path: Path, pair_length: int, max_positions: int | None, longest_bucket: int
) -> None:
    pairs = [*random_pairs(300), ([10 + 300, *[3] * (pair_length - 1)], [4])]
    pairs = [(source[:pair_length], target[:pair_length]) for source, target in pairs]
    store = stored(tmp_path, pairs)
    planner = Planner(
        store, batch_tokens=700, micro_batches=2, buckets=6, seed=1, length_multiple=8, max_positions=max_positions
    )
    *lengths, longest = [length for _, length in planner.shapes]
    assert longest == longest_bucket
    assert lengths
    assert all(length % 8 == 0 for length in lengths)
    assert {batch.source.shape[1] for step in epoch(planner) for batch in step.micro_batches} <= {*lengths, longest}
    assert Counter(numbers(epoch(planner))) == Counter(range(301))


def test_an_epoch_uses_every_pair_once(store: TokenStore) -> None:
    planner = Planner(store, batch_tokens=700, micro_batches=2, buckets=5, seed=1)
    assert Counter(numbers(epoch(planner))) == Counter(range(1500))
    assert Counter(numbers(epoch(planner, 1))) == Counter(range(1500))


def test_the_order_is_a_function_of_seed_and_epoch(store: TokenStore) -> None:
    def order(seed: int, number: int) -> list[int]:
        return numbers(epoch(Planner(store, batch_tokens=700, micro_batches=2, seed=seed), number))

    assert order(1, 0) == order(1, 0)
    orders = [order(seed, number) for seed, number in ((1, 0), (1, 1), (2, 0), (0, 1))]
    assert all(left != right for left, right in combinations(orders, 2))
    # The pairs of a micro-batch differ too.
    first, second = (
        {
            frozenset(numbers(iter([step])))
            for step in epoch(Planner(store, batch_tokens=350, micro_batches=1, seed=seed))
        }
        for seed in (1, 2)
    )
    assert len(first & second) < 0.05 * len(first)


def test_lengths_are_mixed_over_an_epoch(store: TokenStore) -> None:
    steps = epoch(Planner(store, batch_tokens=300, micro_batches=1, seed=1))
    lengths = [step.micro_batches[0].source.shape[1] for step in steps]
    assert len(lengths) > 60
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.3


def test_shapes_are_few_and_within_the_budget(store: TokenStore) -> None:
    planner = Planner(store, batch_tokens=1400, micro_batches=2, buckets=5, seed=1)
    assert len(planner.shapes) == 5
    for rows, length in planner.shapes:
        assert rows * length <= 700
        assert (rows % 8 == 0 and (rows + 8) * length > 700) or rows < 8
    for number in range(3):
        ragged = 0
        for step in epoch(planner, number):
            assert len(step.micro_batches) == 2 or step.position.epoch == number + 1
            assert sum(micro_batch.source.size for micro_batch in step.micro_batches) <= 1400
            ragged += sum(micro_batch.source.shape not in planner.shapes for micro_batch in step.micro_batches)
        assert ragged <= 1


def test_a_small_budget_takes_as_many_rows_as_fit(tmp_path: Path) -> None:
    store = stored(tmp_path, [([5] * 9, [6] * 4)] * 11)
    assert Planner(store, batch_tokens=35, micro_batches=1, seed=1).shapes == [(3, 10)]
    assert Planner(store, batch_tokens=10, micro_batches=1, seed=1).shapes == [(1, 10)]
    planner = Planner(store, batch_tokens=179, micro_batches=1, seed=1)
    assert planner.shapes == [(16, 10)]
    assert [planner.rows_with(micro_batches, 10) for micro_batches in (1, 2, 4, 16, 32)] == [16, 8, 4, 1, 0]


def test_a_pair_that_does_not_fit_is_refused_with_the_size_that_does(tmp_path: Path) -> None:
    store = stored(tmp_path, [([5] * 3, [6] * 19)] * 4)
    with pytest.raises(
        ValueError, match=r"takes 20 positions, a micro-batch has 19 \(39 in 2 micro-batches\); take at least 40"
    ):
        Planner(store, batch_tokens=39, micro_batches=2, seed=1)
    assert Planner(store, batch_tokens=40, micro_batches=2, seed=1).shapes == [(1, 20)]


@pytest.mark.parametrize(("batch_tokens", "micro_batches"), [(500, 1), (4096, 1), (8191, 1), (25_000, 6), (25_500, 6)])
def test_automatic_micro_batches_have_about_4096_positions(
    store: TokenStore, batch_tokens: int, micro_batches: int
) -> None:
    assert Planner(store, batch_tokens=batch_tokens, micro_batches="auto", seed=1).micro_batches == micro_batches


def test_resuming_at_any_position_gives_the_same_steps(store: TokenStore) -> None:
    planner = Planner(store, batch_tokens=1500, micro_batches=3, seed=7)
    count = 2 * planner.steps_per_epoch + 2
    steps = list(islice(planner.steps(), count))
    assert {step.epoch for step in steps} >= {0, 1}
    for number, step in enumerate(steps[:-3]):
        fresh = Planner(store, batch_tokens=1500, micro_batches=3, seed=7)
        for expected, resumed in zip(steps[number + 1 :][:2], fresh.steps(step.position)):
            assert (resumed.epoch, resumed.tokens, resumed.position) == (
                expected.epoch,
                expected.tokens,
                expected.position,
            )
            for batch, resumed_batch in zip(expected.micro_batches, resumed.micro_batches, strict=True):
                assert all(np.array_equal(*sides) for sides in zip(batch, resumed_batch, strict=True))


def test_weights_say_how_often_a_corpus_is_used(tmp_path: Path) -> None:
    store = stored(tmp_path, random_pairs(90), [(30, 2.0), (40, 0.25), (20, 1.5)])
    planner = Planner(store, batch_tokens=400, micro_batches=2, seed=5)
    used = [Counter(numbers(epoch(planner, number))) for number in range(2)]
    for counts in used:
        assert all(counts[number] == 2 for number in range(30))
        assert sum(counts[number] for number in range(30, 70)) == 10
        assert {counts[number] for number in range(30, 70)} == {0, 1}
        assert sum(counts[number] for number in range(70, 90)) == 30
        assert {counts[number] for number in range(70, 90)} == {1, 2}
    assert used[0] != used[1]  # another quarter in another epoch


def test_a_small_weight_never_leaves_an_epoch_empty(tmp_path: Path) -> None:
    store = stored(tmp_path, random_pairs(3), [(3, 0.01)])
    assert len(numbers(epoch(Planner(store, batch_tokens=400, micro_batches=1, seed=5)))) == 1


@pytest.mark.parametrize("weights", [[(0, 1.0), (9, 1.0)], [(9, 1.0), (0, 0.5)], [(4, 1.0), (0, 1.0), (5, 1.0)]])
def test_a_corpus_without_pairs_is_skipped(tmp_path: Path, weights: list[tuple[int, float]]) -> None:
    planner = Planner(stored(tmp_path, random_pairs(9), weights), batch_tokens=400, micro_batches=1, seed=5)
    assert sorted(numbers(epoch(planner))) == list(range(9))


def test_the_buckets_hold_longer_sentences_of_a_later_epoch(tmp_path: Path) -> None:
    whole = random_pairs(60)
    (tmp_path / "first").mkdir()
    first = stored(tmp_path / "first", [(source[:4], target[:4]) for source, target in whole])

    class Growing(TokenStore):
        def in_epoch(self, seed: int, epoch: int) -> TokenStore:
            return self if epoch else first

    stored(tmp_path, whole)
    growing = Growing({name: tmp_path / name for name in FILES}, np.dtype("<u2"), [CorpusPart(60, 1.0)])
    planner = Planner(growing, batch_tokens=400, micro_batches=2, buckets=3, seed=5)
    assert [Counter(numbers(epoch(planner, number))) for number in range(2)] == [Counter(range(60))] * 2
    assert max(length for _, length in planner.shapes) == growing.max_length + 1


def test_the_reported_sizes_are_those_of_the_micro_batches(store: TokenStore) -> None:
    planner = Planner(store, batch_tokens=900, micro_batches=2, buckets=6, seed=3)
    steps = list(epoch(planner))
    micro_batches = [micro_batch for step in steps for micro_batch in step.micro_batches]
    filled = sum(
        int((side != PAD).sum())
        for micro_batch in micro_batches
        for side in (micro_batch.source, micro_batch.target_out)
    )
    assert planner.padding == pytest.approx(
        1 - filled / sum(2 * micro_batch.source.size for micro_batch in micro_batches), abs=1e-12
    )
    assert planner.tokens_per_epoch == sum(step.tokens for step in steps)
    assert planner.steps_per_epoch == len(steps)


def test_padding_is_small(store: TokenStore) -> None:
    by_buckets = [
        Planner(store, batch_tokens=2000, micro_batches=2, buckets=buckets, seed=3).padding for buckets in (2, 6, 12)
    ]
    assert by_buckets == sorted(by_buckets, reverse=True)
    assert by_buckets[-1] < 0.15


@given(
    counts=st.lists(st.integers(0, 9), min_size=2, max_size=9).filter(lambda counts: any(counts[1:])),
    buckets=st.integers(1, 4),
)
@example(counts=[0, 9, 0, 0, 0, 9, 0, 0, 9], buckets=2)
def test_buckets_pad_least(counts: list[int], buckets: int) -> None:
    def padded(chosen: Sequence[int]) -> float:
        fit = [next((bucket for bucket in chosen if bucket >= length), None) for length in range(len(counts))]
        return sum(count * bucket if bucket else float("inf") for count, bucket in zip(counts, fit) if count)

    fitted = fit_buckets(np.array([0, *counts[1:]]), buckets).tolist()
    counts[0] = 0
    assert fitted == sorted(set(fitted))
    assert len(fitted) <= buckets
    choices = (choice for size in range(1, buckets + 1) for choice in combinations(range(1, len(counts)), size))
    assert padded(fitted) == min(padded(choice) for choice in choices)
