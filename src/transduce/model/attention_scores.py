"""Compatibility functions, which compute the attention score of a query and a key (section 3.2.1).

The paper uses the scaled dot product; the other functions are alternatives to it.
"""

import math
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from transduce.settings import Spec

Queries = Float[Tensor, "batch heads target d_k"]
Keys = Float[Tensor, "batch heads source d_k"]
Values = Float[Tensor, "batch heads source d_v"]
Scores = Float[Tensor, "batch heads target source"]


class _WithoutProjection(Spec):
    """Base class of the compatibility functions that have no matrix of their own."""

    def multiplications(self, heads: int, d_k: int) -> int:
        """Counts the multiplications for one query, apart from its products with the keys."""
        return 0


class ScaledDot(_WithoutProjection):
    """The scaled dot product q · k / √d_k, as in the paper (equation 1)."""

    kind: Literal["scaled_dot"] = "scaled_dot"

    def build(self, heads: int, d_k: int) -> "DotProduct":
        """Builds the module that computes the scores."""
        return DotProduct(d_k**-0.5)


class Dot(_WithoutProjection):
    """The dot product q · k without scaling (Luong et al. 2015).

    If d_k is large, these dot products grow so large that the gradients of the softmax become extremely small.
    """

    kind: Literal["dot"] = "dot"

    def build(self, heads: int, d_k: int) -> "DotProduct":
        """Builds the module that computes the scores."""
        return DotProduct(1.0)


class Bilinear(Spec):
    """The bilinear form qᵀ M k / √d_k with a matrix M for each head.

    This is the `general` score of Luong et al. 2015, divided by √d_k.
    """

    kind: Literal["bilinear"] = "bilinear"

    def build(self, heads: int, d_k: int) -> "BilinearProduct":
        """Builds the module that computes the scores."""
        return BilinearProduct(heads, d_k)

    def multiplications(self, heads: int, d_k: int) -> int:
        """Counts the multiplications for one query, apart from its products with the keys."""
        return heads * d_k**2


class Additive(_WithoutProjection):
    """Additive attention, v · tanh(q + k) (Bahdanau et al. 2015).

    This is a feed-forward network with one hidden layer, whose matrices are W^Q and W^K.
    """

    kind: Literal["additive"] = "additive"

    def build(self, heads: int, d_k: int) -> "AdditiveNetwork":
        """Builds the module that computes the scores."""
        return AdditiveNetwork(heads, d_k)


Compatibility = Annotated[ScaledDot | Dot | Bilinear | Additive, Field(discriminator="kind")]


def masked_softmax(
    scores: Float[Tensor, "rows target source"], visible: Bool[Tensor, "rows #target source"]
) -> Float[Tensor, "rows target source"]:
    """Computes the softmax over the visible keys; a query without a visible key gets uniform weights instead of NaN."""
    return scores.masked_fill(~visible, torch.finfo(scores.dtype).min / 2).softmax(-1)


class DotProduct(nn.Module):
    """Computes the dot product of the transformed query and the key, multiplied by `scale`.

    A fused attention operation can compute such scores as well (see `FusedCore`).
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def transform_query(self, query: Queries) -> Queries:
        """Returns the query unchanged."""
        return query

    def forward(self, query: Queries, keys: Keys) -> Scores:
        """Computes the scores of all heads."""
        return (self.transform_query(query) @ keys.transpose(-1, -2)).mul_(self.scale)


class BilinearProduct(DotProduct):
    """Multiplies each query by the matrix of its head, and then computes the scaled dot product with the key."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__(d_k**-0.5)
        self.weight = nn.Parameter(torch.empty(heads, d_k, d_k))
        if not self.weight.is_meta:
            # The identity plus noise, so that training starts near the scaled dot product.
            nn.init.normal_(self.weight, std=1 / d_k)
            with torch.no_grad():
                self.weight.add_(torch.eye(d_k))

    def transform_query(self, query: Queries) -> Queries:
        """Computes qᵀ M."""
        # Uses einsum, because a broadcast matrix multiplication would copy the matrices for each sentence.
        return torch.einsum("bhtk,hkl->bhtl", query, self.weight.to(query.dtype))


class AdditiveNetwork(nn.Module):
    """Scores each pair of a query and a key with a network that has one hidden layer of width d_k."""

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, d_k))
        if not self.weight.is_meta:
            # A variance of 1 / d_k, so that the variance of the scores is at most 1.
            nn.init.uniform_(self.weight, -math.sqrt(3 / d_k), math.sqrt(3 / d_k))

    def forward(self, query: Queries, keys: Keys) -> Scores:
        """Computes the scores of all heads; the hidden layers of all query-key pairs are in memory at the same time."""
        hidden = torch.tanh(query.unsqueeze(3) + keys.unsqueeze(2))
        return (hidden * self.weight[:, None, None, :].to(hidden.dtype)).sum(-1)
