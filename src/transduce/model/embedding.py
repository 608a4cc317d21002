"""From tokens to vectors: embedding · √d_model + position, then dropout (sections 3.4, 3.5, 5.4)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.dropout import Dropout


class Embedding(nn.Module):
    """The token table of source or target, which may be shared, with positions and dropout on their sum."""

    def __init__(self, weight: nn.Parameter, positions: nn.Module, dropout: float, blank: int | None = None) -> None:
        super().__init__()
        self.weight = weight
        self.positions = positions
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(weight.shape[1])
        self.blank = blank  # token whose vector is zeros: the first input of the decoder in the released code

    def forward(self, tokens: Int[Tensor, "rows length"], first: int = 0) -> Float[Tensor, "rows length d_model"]:
        """Returns the vectors of `tokens`, the first of which is at position `first`."""
        vectors = functional.embedding(tokens, self.weight)
        if self.blank is not None:
            vectors = vectors.masked_fill((tokens == self.blank).unsqueeze(-1), 0.0)
        positions = self.positions(first, tokens.shape[1])
        return self.dropout(_to_autocast_precision(torch.add(positions, vectors, alpha=self.scale)))


def _to_autocast_precision(states: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Returns the states in bfloat16 where autocast on a CPU computes products in bfloat16, else unchanged.

    States then stay in bfloat16 between products. On a GPU autocast casts them to float32 for every norm; compiled code
    fuses that cast.
    """
    autocast_to_bfloat16 = (
        states.is_cpu and torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )
    return states.bfloat16() if autocast_to_bfloat16 else states
