"""A ramp of the size of steps: sizes, the same pairs as without it, resuming at any step, any number of processes."""

import re
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest
from test_planner import numbers, random_pairs, stored

from transduce.corpus.batch_ramp import BatchRamp
from transduce.corpus.planner import PlannedStep, Planner, Position
from transduce.corpus.store.token_store import TokenStore
from transduce.settings import validated
from transduce.training.training_settings import Training

RAMP = BatchRamp(start=100, end=800, steps=14)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return stored(tmp_path_factory.mktemp("store"), random_pairs(603))


def planner(store: TokenStore, ramp: BatchRamp | int = RAMP, micro_batches: int = 3) -> Planner:
    return Planner(store, batch_tokens=ramp, micro_batches=micro_batches, seed=4)


def positions_of(step: PlannedStep) -> int:
    """Returns the positions of a step on one side, padding included."""
    return sum(micro_batch.source.size for micro_batch in step.micro_batches)


def test_sizes_double_where_a_line_has_reached_the_double() -> None:
    """The line rises from 1 to 8 parts within 14 steps: by 2 at step 2, by 4 at step 6."""
    sizes = [RAMP.parts_of(step) for step in range(1, 17)]
    assert sizes == [1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 8, 8, 8]
    assert [BatchRamp(start=7, end=14, steps=1).parts_of(step) for step in (1, 2)] == [2, 2]


@pytest.mark.parametrize("begin", [0, 1, 3, 13, 20])
@pytest.mark.parametrize("whole_steps", [0.5, 1.0, 3.3, 9.0])
def test_the_step_after_whole_steps_is_that_of_counting(begin: int, whole_steps: float) -> None:
    step, left = begin, 8 * whole_steps
    while left >= RAMP.parts_of(step + 1):
        left -= RAMP.parts_of(step + 1)
        step += 1
    assert int(RAMP.steps_after(begin, whole_steps)) == step
    assert RAMP.whole_steps(begin) + whole_steps == pytest.approx(
        RAMP.whole_steps(step) + (RAMP.steps_after(begin, whole_steps) - step) * RAMP.parts_of(step + 1) / RAMP.parts
    )


@pytest.mark.parametrize("ramp", [RAMP, BatchRamp(start=3, end=6, steps=1), BatchRamp(start=1, end=64, steps=5)])
def test_the_work_of_steps_is_the_sum_of_their_parts(ramp: BatchRamp) -> None:
    for step in range(40):
        parts = sum(ramp.parts_of(each) for each in range(1, step + 1))
        assert ramp.whole_steps(step) == pytest.approx(parts / ramp.parts)


@pytest.mark.parametrize(("start", "end"), [(100, 100), (100, 300), (100, 250), (200, 100), (3, 8)])
def test_an_end_that_is_no_doubling_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match=f"`end` is {end} and must be `start` doubled .*, such as {2 * start} or"):
        validated(BatchRamp, {"start": start, "end": end, "steps": 5}, place="recipe.yaml")


@pytest.mark.parametrize(
    ("batch_tokens", "fault"),
    [
        (0, "`batch_tokens` is 0: write at least 1"),
        ("many", '`batch_tokens` is "many": write a whole number'),
        ({"start": 3, "end": 6}, "`batch_tokens.steps` is missing"),
        (
            {"start": 3, "end": 6, "step": 2, "steps": 2},
            "unknown key `batch_tokens.step`; did you mean `batch_tokens.steps`?",
        ),
    ],
)
def test_a_number_and_a_ramp_have_messages_of_their_own(batch_tokens: object, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^recipe.yaml: {re.escape(fault)}$"):
        validated(Training, {"batch_tokens": batch_tokens}, place="recipe.yaml")


def test_most_tokens_of_a_step_are_those_of_its_end() -> None:
    assert Training(batch_tokens=77).max_batch_tokens == 77
    ramp = validated(Training, {"batch_tokens": {"start": 100, "end": 800, "steps": 14}}, place="recipe.yaml")
    assert (ramp.batch_tokens, ramp.max_batch_tokens) == (RAMP, 800)


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_an_epoch_has_each_pair_once_in_steps_that_grow(store: TokenStore, micro_batches: int) -> None:
    epoch = list(takewhile(lambda step: step.epoch == 0, planner(store, micro_batches=micro_batches).steps()))
    whole = takewhile(lambda step: step.epoch == 0, planner(store, 800, micro_batches).steps())
    assert numbers(epoch) == numbers(whole), "the order does not depend on the ramp"
    assert sorted(numbers(epoch)) == list(range(603))
    assert all(step.tokens > 0 for step in epoch)
    assert epoch[-1].position == Position(1)
    sizes = [positions_of(step) for step in epoch]
    for number, size in enumerate(sizes, 1):
        rounding = 41 * micro_batches  # a row of each micro-batch
        assert size <= 100 * RAMP.parts_of(number) + rounding
    assert max(sizes[:5]) < 300 < np.median(sizes[13:])
    assert all(step.micro_batch_count == micro_batches for step in epoch[14:-1])


@pytest.mark.parametrize("done", [1, 4, 9, 13, 40])
def test_steps_from_a_position_are_those_after_it(store: TokenStore, done: int) -> None:
    straight = list(islice(planner(store).steps(), done + 60))
    resumed = planner(store).steps(straight[done - 1].position, after=done)
    for expected, step in zip(straight[done:], resumed):
        assert (step.epoch, step.tokens, step.position) == (expected.epoch, expected.tokens, expected.position)
        assert numbers(iter([step])) == numbers(iter([expected]))


def test_after_a_rollback_no_pair_is_lost(store: TokenStore) -> None:
    """The number of steps goes back to that of a checkpoint, while the position in the data moves on."""
    before = list(islice(planner(store).steps(), 11))
    after = takewhile(lambda step: step.epoch == 0, planner(store).steps(before[-1].position, after=2))
    assert sorted(numbers(iter([*before, *after]))) == list(range(603))


def test_processes_divide_the_micro_batches_of_a_step(store: TokenStore) -> None:
    alone = list(islice(planner(store).steps(), 25))
    first, second = (islice(planner(store).steps(rank=rank, size=2), 25) for rank in (0, 1))
    for step, even, odd in zip(alone, first, second, strict=True):
        assert even.tokens == odd.tokens == step.tokens
        assert even.micro_batch_count == odd.micro_batch_count == len(step.micro_batches)
        assert [len(even.micro_batches), len(odd.micro_batches)] == [
            len(step.micro_batches[rank::2]) for rank in (0, 1)
        ]


def test_single_rows_are_not_lost(tmp_path: Path) -> None:
    """A step of fewer rows than parts has parts without a pair, which no step takes."""
    few = stored(tmp_path, random_pairs(3))
    steps = list(takewhile(lambda step: step.epoch == 0, planner(few, micro_batches=1).steps()))
    assert sorted(numbers(iter(steps))) == [0, 1, 2]
    assert all(step.tokens > 0 for step in steps)
    assert steps[-1].position == Position(1)
