"""Token tables without positions; the Transformer's table with positions is in `transduce.model.embedding`."""

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


class TokenVectors(nn.Module):
    """The token table of source or target, which may be shared, drawn N(0, 1/d_model) or with another `deviation`."""

    def __init__(self, weight: nn.Parameter, deviation: float | None = None) -> None:
        super().__init__()
        self.weight = weight
        if not weight.is_meta:
            nn.init.normal_(weight, std=deviation or weight.shape[1] ** -0.5)

    def forward(self, tokens: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length d_model"]:
        """Returns the vector of each token."""
        return functional.embedding(tokens, self.weight)
