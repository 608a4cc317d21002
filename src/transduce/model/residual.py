"""Residual connection, dropout and layer normalisation around a sub-layer (sections 3.1 and 5.4)."""

from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.dropout import Dropout

States = Float[Tensor, "batch target d_model"]


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))), as in the paper."""

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(dropout)

    def sublayer_input(self, states: States) -> States:
        """Returns the input of the sub-layer: the states."""
        return states

    def forward(self, states: States, output: States) -> States:
        """Returns the states after the sub-layer, whose output is `output`."""
        return self.norm(states + self.dropout(output))


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x))); not the formula of the paper, to which it is often attributed."""

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(dropout)

    def sublayer_input(self, states: States) -> States:
        """Returns the input of the sub-layer: the normalised states."""
        return self.norm(states)

    def forward(self, states: States, output: States) -> States:
        """Returns the states after the sub-layer, whose output is `output`."""
        return states + self.dropout(output)


WRAPPERS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
