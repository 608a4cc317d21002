"""How well a query fits a key: the paper's scaled dot product, and what section 3.2.1 weighs it against."""

import math
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from transduce.settings import Spec

Queries = Float[Tensor, "batch heads target d_k"]
Keys = Float[Tensor, "batch heads source d_k"]
Scores = Float[Tensor, "batch heads target source"]


class _Plain(Spec):
    """One that multiplies nothing but query and key."""

    def products(self, heads: int, d_k: int) -> int:
        """Multiplications of a query besides those with the keys."""
        return 0


class ScaledDot(_Plain):
    """q · k / √d_k: the paper's (equation 1)."""

    kind: Literal["scaled_dot"] = "scaled_dot"

    def build(self, heads: int, d_k: int) -> "DotProduct":
        """The module."""
        return DotProduct(d_k**-0.5)


class Dot(_Plain):
    """q · k, without the scaling that keeps the softmax's gradients from vanishing at large d_k (Luong et al. 2015)."""

    kind: Literal["dot"] = "dot"

    def build(self, heads: int, d_k: int) -> "DotProduct":
        """The module."""
        return DotProduct(1.0)


class Bilinear(Spec):
    """qᵀ M k / √d_k with a matrix a head: Luong's `general` by √d_k, more sophisticated than the dot product."""

    kind: Literal["bilinear"] = "bilinear"

    def build(self, heads: int, d_k: int) -> "BilinearProduct":
        """The module."""
        return BilinearProduct(heads, d_k)

    def products(self, heads: int, d_k: int) -> int:
        """Multiplications of a query besides those with the keys."""
        return heads * d_k**2


class Additive(_Plain):
    """v · tanh(q + k): a network of one hidden layer, whose matrices are W^Q and W^K (Bahdanau et al. 2015)."""

    kind: Literal["additive"] = "additive"

    def build(self, heads: int, d_k: int) -> "AdditiveNetwork":
        """The module."""
        return AdditiveNetwork(heads, d_k)


Compatibility = Annotated[ScaledDot | Dot | Bilinear | Additive, Field(discriminator="kind")]


class DotProduct(nn.Module):
    """(what a query is turned to) · k · scale: a fused call can do it."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def turned(self, query: Queries) -> Queries:
        """The query itself."""
        return query

    def forward(self, query: Queries, keys: Keys) -> Scores:
        """Every score of every head."""
        return (self.turned(query) @ keys.transpose(-1, -2)).mul_(self.scale)


class BilinearProduct(DotProduct):
    """A query is turned by its head's matrix first."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__(d_k**-0.5)
        self.weight = nn.Parameter(torch.empty(heads, d_k, d_k))
        if not self.weight.is_meta:
            # The dot product plus noise, so that a head begins as one that works.
            nn.init.normal_(self.weight, std=1 / d_k)
            with torch.no_grad():
                self.weight.add_(torch.eye(d_k))

    def turned(self, query: Queries) -> Queries:
        """qᵀ M."""
        # A product over heads: broadcast over sentences, the matrices would be copied once for each of them.
        return torch.einsum("bhtk,hkl->bhtl", query, self.weight.to(query.dtype))


class AdditiveNetwork(nn.Module):
    """One hidden layer of width d_k, which every pair of a query and a key passes."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, d_k))
        if not self.weight.is_meta:
            nn.init.uniform_(self.weight, -math.sqrt(3 / d_k), math.sqrt(3 / d_k))

    def forward(self, query: Queries, keys: Keys) -> Scores:
        """Every score of every head; the hidden layer of all pairs is in memory at once."""
        hidden = torch.tanh(query.unsqueeze(3) + keys.unsqueeze(2))
        return (hidden * self.weight[:, None, None, :].to(hidden.dtype)).sum(-1)
