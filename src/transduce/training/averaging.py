"""Checkpoint averaging (section 6.1)."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


def average_weights(checkpoints: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Averages the weights of several checkpoints, and returns them as float32 tensors by name.

    The weights are summed in float64. Only one checkpoint is in memory at a time if `checkpoints` is a generator.

    Raises ValueError if the checkpoints belong to different models, or if there are none.
    """
    sums: dict[str, Tensor] = {}
    count = 0
    for weights in checkpoints:
        shapes = {name: tensor.shape for name, tensor in weights.items()}
        if sums and shapes != {name: tensor.shape for name, tensor in sums.items()}:
            raise ValueError("the checkpoints are of different models: their weights differ in names or shapes")
        for name, tensor in weights.items():
            sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
        count += 1
    if not count:
        raise ValueError("there is no checkpoint to average")
    return {name: (tensor / count).float() for name, tensor in sums.items()}
