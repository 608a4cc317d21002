"""When a training rolls back, and when it gives up."""

import math
from typing import NamedTuple

import pytest
import torch

from transduce.training.divergence import (
    MAX_ROLLBACKS,
    MAX_SKIPS_IN_A_ROW,
    DivergedError,
    DivergenceDetector,
    SkippedSteps,
    count_rollback,
)
from transduce.training.precision import Precision


class Record(NamedTuple):
    step: int
    skipped: bool
    loss: float = math.nan
    gradient_norm: float = math.inf
    rate: float = 1e-3
    can_lower_scale: bool = False


def test_only_several_skips_in_a_row_need_a_rollback():
    skips = SkippedSteps()
    for _ in range(MAX_SKIPS_IN_A_ROW - 1):
        skips = skips.after_step(skipped=True)
    assert not skips.needs_rollback
    assert skips.after_step(skipped=True).needs_rollback
    reset = skips.after_step(skipped=False).after_step(skipped=True)
    assert (reset.total, reset.in_a_row, reset.needs_rollback) == (MAX_SKIPS_IN_A_ROW, 1, False)


def test_too_many_rollbacks_are_divergence():
    skips = SkippedSteps(total=5, in_a_row=5)
    for number in range(MAX_ROLLBACKS):
        skips = count_rollback(skips._replace(in_a_row=5), Record(9, True), saved=True)
        assert skips == SkippedSteps(5, 0, number + 1)
    with pytest.raises(DivergedError, match=r"step 9, and again after 3 returns .*training.clip"):
        count_rollback(skips, Record(9, True), saved=True)
    with pytest.raises(DivergedError, match=r"step 9, before there was a checkpoint: loss nan, gradient norm inf"):
        count_rollback(SkippedSteps(), Record(9, True), saved=False)


def test_a_skip_on_a_gpu_is_detected_one_step_late():
    precision = Precision("float32", torch.device("cpu"))
    precision.device = torch.device("cuda")
    late = DivergenceDetector(precision)
    skipped = [late.find_skipped_step(Record(step, step == 2)) for step in (1, 2, 3, 4)]
    assert [record and record.step for record in skipped] == [None, None, 2, None]
    soon = DivergenceDetector(Precision("float32", torch.device("cpu")))
    skipped = [soon.find_skipped_step(Record(step, step == 2)) for step in (1, 2, 3)]
    assert [record and record.step for record in skipped] == [None, 2, None]


def test_an_overflow_of_float16_counts_only_at_the_lowest_scale():
    precision = Precision("float16", torch.device("cpu"))
    detector, skipped = DivergenceDetector(precision), []
    for step in range(1, 21):
        record = Record(step, True, can_lower_scale=precision.can_lower_scale)  # before the scale changes
        precision.update_scale(finite=False)
        skipped.append(detector.find_skipped_step(record) is not None)
    assert precision.scale == Precision.min_scale
    assert skipped == [False] * 15 + [True] * 5
