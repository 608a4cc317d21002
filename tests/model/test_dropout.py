"""Dropout: probability, scaling, independence and repetition with a seed."""

import math

import pytest
import torch

from transduce.model.residual import Dropout


def dropped(probability: float, *shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(probability)(torch.ones(*shape, dtype=dtype))


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_each_element_goes_as_often_as_it_should_and_the_others_are_scaled_up(probability: float) -> None:
    states = dropped(probability, 100, 999)
    zeros = states == 0
    # Five standard deviations: one false alarm in 1.7 million.
    bound = 5 * math.sqrt(probability * (1 - probability) / states.numel())
    assert zeros.double().mean().item() == pytest.approx(probability, abs=bound)
    scaled = states[~zeros]
    torch.testing.assert_close(scaled, torch.full_like(scaled, 1 / (1 - probability)), rtol=1e-3, atol=0)
    # Neighbours, in a row and in a column, are independent.
    for left, right in [(zeros[:, 1:], zeros[:, :-1]), (zeros[1:], zeros[:-1])]:
        assert (left & right).double().mean().item() == pytest.approx(probability**2, abs=2 * bound)


def test_a_seed_repeats_the_mask_and_each_call_draws_a_new_one() -> None:
    assert torch.equal(dropped(0.3, 7, 31), dropped(0.3, 7, 31))
    assert not torch.equal(dropped(0.3, 7, 31), dropped(0.3, 7, 31, seed=2))
    dropout = Dropout(0.3)
    assert not torch.equal(dropout(torch.ones(7, 31)), dropout(torch.ones(7, 31)))


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 1, 7), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_shape_and_dtype_are_kept(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    states = dropped(0.3, *shape, dtype=dtype)
    assert (tuple(states.shape), states.dtype) == (shape, dtype)


def test_the_gradient_has_the_same_mask() -> None:
    torch.manual_seed(1)
    inner = torch.randn(7, 31, dtype=torch.float64, requires_grad=True)
    states = Dropout(0.3)(inner)
    states.sum().backward()
    torch.testing.assert_close(inner.grad * inner.detach(), states.detach())


def test_nothing_is_dropped_in_evaluation_or_at_probability_zero() -> None:
    inner = torch.randn(7, 31)
    assert Dropout(0.3).eval()(inner) is inner
    assert Dropout(0.0)(inner) is inner


def test_a_probability_of_nearly_one_leaves_nearly_nothing() -> None:
    assert (dropped(1 - 1e-9, 10, 99) == 0).double().mean() > 0.99
