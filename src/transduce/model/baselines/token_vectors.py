"""Tables of words without positions; the Transformer's with them is in `transduce.model.embedding`."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


class WordVectors(nn.Module):
    """One side's words, from a table that may be shared."""

    def __init__(self, weight: nn.Parameter, deviation: float) -> None:
        super().__init__()
        self.weight = weight
        if not weight.is_meta:
            nn.init.normal_(weight, std=deviation)

    def forward(self, words: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length d_model"]:
        """The vector of each word."""
        vectors: Tensor = functional.embedding(words, self.weight)
        return vectors
