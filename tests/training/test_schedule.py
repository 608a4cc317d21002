"""The learning rates of section 5.3."""

import pytest

from transduce.training.schedule import Constant, CosineDecay, InverseSquareRoot, LinearDecay, Paper, WarmupStableDecay
from transduce.training.training_settings import Training

ENDING = [
    LinearDecay(warmup=7, peak=0.1),
    CosineDecay(warmup=7, peak=0.1),
    WarmupStableDecay(warmup=7, peak=0.1, decay=0.3),
]


@pytest.mark.parametrize(
    ("step", "rate"),
    [(1, 1.74693e-7), (1000, 1.74693e-4), (4000, 6.98771e-4), (16000, 3.49386e-4), (100_000, 1.39754e-4)],
)
def test_base(step, rate):
    assert Paper().rate(step, 512) == pytest.approx(rate, rel=1e-5)


def test_big_peaks_lower():
    assert Paper().rate(4000, 1024) == pytest.approx(4.94e-4, abs=5e-7)


@pytest.mark.parametrize(("step", "rate"), [(1, 2.5e-6), (500, 1.25e-3), (2000, 5e-3), (8000, 2.5e-3), (50_000, 1e-3)])
def test_inverse_square_root_with_a_peak(step, rate):
    assert InverseSquareRoot(warmup=2000, peak=5e-3).rate(step, 512) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(("step", "rate"), [(1, 2e-6), (50, 1e-4), (100, 2e-4), (101, 2e-4), (90_000, 2e-4)])
def test_a_constant_rate_after_a_warmup(step, rate):
    assert Constant(warmup=100, peak=2e-4).rate(step, 512) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    "schedule", [Paper(warmup=7), InverseSquareRoot(warmup=7, peak=0.1), Constant(warmup=7, peak=0.1), *ENDING]
)
def test_the_peak_is_at_the_end_of_the_warmup(schedule):
    rates = [schedule.rate(step, 48, 29) for step in range(1, 30)]
    assert rates.index(max(rates)) + 1 == 7


def test_both_schedules_have_the_same_shape():
    paper = Paper(warmup=300)
    inverse = InverseSquareRoot(warmup=300, peak=paper.rate(300, 80))
    assert [inverse.rate(step, 80) for step in (1, 299, 301, 5000)] == pytest.approx(
        [paper.rate(step, 80) for step in (1, 299, 301, 5000)], rel=1e-12
    )


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (LinearDecay(warmup=100, peak=2e-3), [2e-5, 1e-3, 2e-3, 1.5e-3, 1e-3, 0.0]),
        (CosineDecay(warmup=100, peak=2e-3), [2e-5, 1e-3, 2e-3, 1.70710678e-3, 1e-3, 0.0]),
        (WarmupStableDecay(warmup=100, peak=2e-3, decay=0.8), [2e-5, 1e-3, 2e-3, 1.5e-3, 7.7525513e-4, 0.0]),
    ],
)
def test_schedules_that_end_at_zero(schedule, rates):
    """500 steps: after the warm-up 400, of which a quarter is done at step 200, and a half at 300."""
    actual = [schedule.rate(step, 48, 500) for step in (1, 50, 100, 200, 300, 500)]
    assert actual == pytest.approx(rates, rel=1e-8, abs=1e-18)
    assert schedule.rate(501, 48, 500) == 0
    assert [schedule.rate(step, 48, 1) for step in (1, 2)] == [2e-3, 0]  # one step more than was estimated


def test_a_stable_rate_lasts_until_the_decay():
    schedule = WarmupStableDecay(warmup=10, peak=0.3, decay=0.25)
    rates = [schedule.rate(step, 48, 110) for step in range(1, 111)]
    assert [step for step, rate in enumerate(rates, 1) if rate == 0.3] == list(range(10, 86))
    assert rates[85:] == sorted(rates[85:], reverse=True)


@pytest.mark.parametrize("schedule", ENDING)
def test_the_rate_stays_at_the_peak_while_the_number_of_steps_is_not_known(schedule):
    assert [schedule.rate(step, 48, None) for step in (7, 8, 10**6)] == [0.1] * 3


@pytest.mark.parametrize("schedule", ENDING)
def test_a_warmup_is_at_most_half_of_the_steps(schedule):
    rates = [schedule.rate(step, 48, 10) for step in range(1, 11)]
    assert (max(rates), rates.index(0.1) + 1, rates[-1]) == (0.1, 5, 0)
    assert schedule.rate(1, 48, 1) == 0.1


@pytest.mark.parametrize("schedule", ENDING)
def test_a_schedule_that_ends_needs_an_end(schedule):
    for end in ({"steps": 5}, {"steps": None, "epochs": 2}, {"steps": None, "minutes": 1.5}):
        Training(schedule=schedule, **end)
    with pytest.raises(ValueError, match=f"`schedule: {schedule.kind}` reaches zero at the end of the training: set"):
        Training(schedule=schedule, steps=None, patience=3)
