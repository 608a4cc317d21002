"""The mean of checkpoints."""

import pytest
import torch

from transduce.training.averaging import average_weights


def test_the_mean_is_taken_in_float64():
    # In float32 the sum of the first three is 2²⁴ + 2, for want of bits.
    values = [2.0**24, 1.0, 1.0, 1.0]
    mean = average_weights({"a": torch.tensor([value, 3.0]), "b": torch.tensor(value)} for value in values)
    assert mean["a"].dtype == torch.float32
    assert mean["a"].tolist() == [float(torch.tensor((2.0**24 + 3) / 4)), 3.0]
    assert float(mean["b"]) == float(torch.tensor((2.0**24 + 3) / 4))


def test_the_checkpoints_stay_unchanged():
    checkpoints = [{"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, 7.0])}]
    assert average_weights(checkpoints)["a"].tolist() == [2.0, 4.5]
    assert [checkpoint["a"].tolist() for checkpoint in checkpoints] == [[1.0, 2.0], [3.0, 7.0]]


@pytest.mark.parametrize(
    "weights", [{"b": torch.zeros(2)}, {"a": torch.zeros(2, 1)}, {"a": torch.zeros(2), "b": torch.zeros(1)}, {}]
)
def test_weights_of_another_model_are_refused(weights):
    with pytest.raises(ValueError, match="different models"):
        average_weights([{"a": torch.ones(2)}, weights])


def test_averaging_no_checkpoint_is_refused():
    with pytest.raises(ValueError, match="no checkpoint to average"):
        average_weights([])
