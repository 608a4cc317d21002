"""Dropout (section 5.4)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class Dropout(nn.Module):
    """Sets each element to zero with probability `probability` while training, and scales the others up."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, states: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The states, thinned while training; untouched otherwise."""
        if not self.training or self.probability == 0:
            return states
        return functional.dropout(states, self.probability)
