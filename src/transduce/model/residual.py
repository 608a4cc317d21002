"""How a sub-layer is wrapped: residual connection, dropout and layer normalisation (sections 3.1 and 5.4)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.dropout import Dropout

States = Float[Tensor, "batch target d_model"]


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's."""

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, states: States, sublayer: Callable[[States], States]) -> States:
        """The states after the sub-layer."""
        normalised: Tensor = self.norm(states + self.dropout(sublayer(states)))
        return normalised


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x))): not the paper's; often quoted as if it were."""

    def __init__(self, d_model: int, dropout: float, epsilon: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model, eps=epsilon)
        self.dropout = Dropout(dropout)

    def forward(self, states: States, sublayer: Callable[[States], States]) -> States:
        """The states after the sub-layer."""
        added: Tensor = states + self.dropout(sublayer(self.norm(states)))
        return added


WRAPPERS: dict[str, type[PostNorm] | type[PreNorm]] = {"post": PostNorm, "pre": PreNorm}
