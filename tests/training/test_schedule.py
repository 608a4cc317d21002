"""The learning rates of section 5.3."""

import pytest

from transduce.training.schedule import Constant, InverseSquareRoot, Paper


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
    "schedule", [Paper(warmup=7), InverseSquareRoot(warmup=7, peak=0.1), Constant(warmup=7, peak=0.1)]
)
def test_the_peak_is_at_the_end_of_the_warmup(schedule):
    rates = [schedule.rate(step, 48) for step in range(1, 30)]
    assert rates.index(max(rates)) + 1 == 7


def test_both_schedules_have_the_same_shape():
    paper = Paper(warmup=300)
    inverse = InverseSquareRoot(warmup=300, peak=paper.rate(300, 80))
    assert [inverse.rate(step, 80) for step in (1, 299, 301, 5000)] == pytest.approx(
        [paper.rate(step, 80) for step in (1, 299, 301, 5000)], rel=1e-12
    )
