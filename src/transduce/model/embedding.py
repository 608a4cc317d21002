"""From tokens to vectors: embedding · √d_model + position, then dropout (sections 3.4, 3.5, 5.4)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.dropout import Dropout


class Embedding(nn.Module):
    """One side's tokens: a table that may be shared, the positions, and dropout on their sum."""

    def __init__(self, weight: nn.Parameter, positions: nn.Module, dropout: float, blank: int | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(weight.shape[1])
        self.blank = blank  # the symbol that is a vector of zeros, as the released decoder's first input is

    def forward(self, tokens: Int[Tensor, "rows length"], first: int = 0) -> Float[Tensor, "rows length d_model"]:
        """Vectors of `tokens`, the first of which stands at position `first`."""
        vectors = functional.embedding(tokens, self.weight)
        if self.blank is not None:
            vectors = vectors.masked_fill((tokens == self.blank).unsqueeze(-1), 0.0)
        places = self.positions(first, tokens.shape[1])
        summed: Tensor = self.dropout(_narrowed(torch.add(places, vectors, alpha=self.scale)))
        return summed


def _narrowed(states: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """In bfloat16 where products are: what passes from one product to the next is then not widened in between.

    On a CPU. On a GPU autocast widens for every norm, and compiled code does that on the way.
    """
    narrow = states.is_cpu and torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    return states.bfloat16() if narrow else states
