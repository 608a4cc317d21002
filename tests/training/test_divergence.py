"""When a training goes back, and when it gives up."""

import math
from typing import NamedTuple

import pytest
import torch

from transduce.training import DivergedError, DivergenceDetector, Precision, SkippedSteps, count_rollback
from transduce.training.divergence import RETURNS, TOLERATED


class Record(NamedTuple):
    step: int
    skipped: bool
    loss: float = math.nan
    gradient_norm: float = math.inf
    rate: float = 1e-3
    lowers_scale: bool = False


def test_several_in_a_row_are_too_many_and_one_good_step_forgives():
    skips = SkippedSteps()
    for _ in range(TOLERATED - 1):
        skips = skips.noted(skipped=True)
    assert not skips.too_many
    assert skips.noted(skipped=True).too_many
    forgiven = skips.noted(skipped=False).noted(skipped=True)
    assert (forgiven.total, forgiven.in_a_row, forgiven.too_many) == (TOLERATED, 1, False)


def test_so_many_returns_and_then_no_more():
    skips = SkippedSteps(total=5, in_a_row=5)
    for number in range(RETURNS):
        skips = count_rollback(skips._replace(in_a_row=5), Record(9, True), saved=True)
        assert skips == SkippedSteps(5, 0, number + 1)
    with pytest.raises(DivergedError, match=r"step 9, and again after 3 returns .*training.clip"):
        count_rollback(skips, Record(9, True), saved=True)
    with pytest.raises(DivergedError, match=r"step 9, before there was a checkpoint: loss nan, gradient norm inf"):
        count_rollback(SkippedSteps(), Record(9, True), saved=False)


def test_a_gpu_is_looked_at_a_step_late():
    precision = Precision("float32", torch.device("cpu"))
    precision.device = torch.device("cuda")
    late = DivergenceDetector(precision)
    found = [late.skipped(Record(step, step == 2)) for step in (1, 2, 3, 4)]
    assert [each and each.step for each in found] == [None, None, 2, None]
    soon = DivergenceDetector(Precision("float32", torch.device("cpu")))
    found = [soon.skipped(Record(step, step == 2)) for step in (1, 2, 3)]
    assert [each and each.step for each in found] == [None, 2, None]


def test_float16_lowers_its_scale_to_its_least_before_anything_is_said():
    precision = Precision("float16", torch.device("cpu"))
    divergence, told = DivergenceDetector(precision), []
    for step in range(1, 21):
        record = Record(step, True, lowers_scale=precision.lowering)  # decided before the scale moves
        precision.scale_by(finite=False)
        told.append(divergence.skipped(record) is not None)
    assert precision.scale == Precision.least
    assert told == [False] * 15 + [True] * 5
