"""The position-wise feed-forward network (section 3.3)."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.dropout import Dropout
from transduce.settings import Spec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu_,
    "gelu": functional.gelu,
    "swish": functional.silu,
}


class FeedForward(Spec):
    """max(0, x W1 + b1) W2 + b2 (equation 2); `dropout` applies to the hidden layer and is 0 in the paper."""

    kind: Literal["feed_forward"] = "feed_forward"
    d_ff: int = Field(ge=1, description="Width of the hidden layer.")
    activation: Literal["relu", "gelu", "swish"] = Field(
        default="relu", description="Activation; the paper's is `relu`."
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout of the hidden layer.")

    def build(self, d_model: int) -> "FeedForwardNetwork":
        """Builds the module for states of width `d_model`."""
        return FeedForwardNetwork(self, d_model)

    def multiplications(self, d_model: int) -> int:
        """Counts the multiplications of one token."""
        return 2 * d_model * self.d_ff


class FeedForwardNetwork(nn.Module):
    """Two linear maps with an activation between, the same at every position: two convolutions with kernel 1."""

    def __init__(self, spec: FeedForward, d_model: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, spec.d_ff)
        self.outer = nn.Linear(spec.d_ff, d_model)
        self.activation = ACTIVATIONS[spec.activation]
        self.dropout = Dropout(spec.dropout)

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Computes equation 2, position by position."""
        return self.outer(self.dropout(self.activation(self.inner(states))))
