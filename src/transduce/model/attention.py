"""Multi-head attention (section 3.2).

A mask is True at the keys that a query may attend to, and is the same for all heads. Equation 1 is computed by a
*core*, a module without parameters: `FusedCore` is fast, whereas `ExplicitCore` follows the equation step by step and
can also return the attention weights.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention_scores import Compatibility, DotProduct, Keys, Queries, ScaledDot, Values
from transduce.model.decoder_state import DecodingContext, HypothesisRows
from transduce.model.mixer import Mixer, MixerSpec, Visible

Weights = Float[Tensor, "batch heads target source"]

VECTOR = 16  # float32 numbers in the widest vector register

# cuDNN's attention is switched off because it builds a new execution plan for each shape, that is, for each batch
# length and each step of a search.
torch.backends.cuda.enable_cudnn_sdp(False)


class AttentionSpec(MixerSpec):
    """Settings of multi-head attention (section 3.2.2); d_k and d_v may differ from d_model / heads."""

    heads: int = Field(ge=1, description="Number of attention heads, h.")
    d_k: int = Field(ge=1, description="Dimension of the queries and keys of each head.")
    d_v: int = Field(ge=1, description="Dimension of the values of each head.")
    bias: bool = Field(default=False, description="Whether the four projections have biases, as in the released code.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout probability of attention weights.")
    compatibility: Compatibility = Field(
        default=ScaledDot(), description="Function that computes the score of a query and a key."
    )

    def multiplications(self, d_model: int, visible: int | float, *, causal: bool = False) -> int | float:
        """Counts the multiplications for one token that attends to `visible` tokens, including itself."""
        widths = self.heads * (self.d_k + self.d_v)
        return 2 * d_model * widths + visible * widths + self.compatibility.multiplications(self.heads, self.d_k)


class Attention(AttentionSpec):
    """Every position attends to every position; in decoder self-attention, only to itself and earlier positions."""

    kind: Literal["attention"] = "attention"

    def build(self, d_model: int) -> "MultiHeadAttention":
        """Builds the module for hidden states of width `d_model`."""
        return MultiHeadAttention(self, d_model)


class FusedCore(nn.Module):
    """Computes equation 1, softmax(QKᵀ / √d_k) V, as fast as possible.

    On a GPU, a single fused torch operation computes it if the scores are dot products.
    """

    def forward(
        self,
        compatibility: nn.Module,
        query: Queries,
        keys: Keys,
        values: Values,
        visible: Visible | None,
        causal: bool,
        dropout: float,
    ) -> Float[Tensor, "batch heads target d_v"]:
        """Returns the weighted sums of the values for all heads.

        If `causal` is true, later positions are masked. `dropout` is the dropout probability of the attention weights;
        the caller passes 0 outside training.
        """
        if not query.is_cpu and isinstance(compatibility, DotProduct):
            mask = None if visible is None else visible.unsqueeze(1)
            query, scale = compatibility.transform_query(query), compatibility.scale
            return functional.scaled_dot_product_attention(
                query, keys, values, attn_mask=mask, is_causal=causal, dropout_p=dropout, scale=scale
            )
        # On a CPU, for inputs as long as a sentence, torch's fused attention takes twice as long as the code below, and
        # its backward pass in bfloat16 takes twenty times as long.
        products = compatibility(query, keys)
        # The scores are at least float32, because torch does not vectorise the softmax of short rows in bfloat16 or
        # float16.
        scores = products.to(torch.promote_types(products.dtype, torch.float32))
        # Masks contain a large negative number instead of −∞, so that two masks can be added, and so that a query
        # without a visible key does not produce NaN. If a query has a visible key, its masked keys still get weights of
        # exactly 0.
        lowest = torch.finfo(scores.dtype).min / 2
        if visible is not None:
            scores = scores.add_((~visible).to(scores.dtype).mul_(lowest).unsqueeze(1))
        if causal:
            scores = scores.add_(scores.new_full(scores.shape[-2:], lowest).triu_(1))
        weights = functional.dropout(_softmax(scores).to(products.dtype), dropout, training=dropout > 0)
        return weights @ values


def _softmax(scores: Float[Tensor, "*rows keys"]) -> Float[Tensor, "*rows keys"]:
    """Computes the softmax over the keys.

    On a CPU, short rows are padded first, because torch vectorises only rows of at least `VECTOR` numbers.
    """
    missing = VECTOR - scores.shape[-1]
    if missing <= 0 or not scores.is_cpu:
        return scores.softmax(-1)
    return functional.pad(scores, (0, missing), value=-math.inf).softmax(-1)[..., :-missing]


class ExplicitCore(nn.Module):
    """Computes equation 1 one operation at a time: product, scaling, mask, softmax, product (Figure 2, left)."""

    def weights(
        self, compatibility: nn.Module, query: Queries, keys: Keys, visible: Visible | None, causal: bool
    ) -> Weights:
        """Returns the attention weights softmax(QKᵀ / √d_k), with masked scores set to −∞ before the softmax."""
        scores = compatibility(query, keys)
        if visible is not None:
            scores = scores.masked_fill(~visible.unsqueeze(1), -math.inf)
        if causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        return scores.softmax(-1)

    def forward(
        self,
        compatibility: nn.Module,
        query: Queries,
        keys: Keys,
        values: Values,
        visible: Visible | None,
        causal: bool,
        dropout: float,
    ) -> Float[Tensor, "batch heads target d_v"]:
        """Returns the weighted sums of the values; the arguments are the same as for `FusedCore.forward`."""
        weights = self.weights(compatibility, query, keys, visible, causal)
        return functional.dropout(weights, dropout, training=dropout > 0) @ values


class MultiHeadAttention(Mixer):
    """Multi-head attention (section 3.2.2).

    Computes Concat(head_1, …, head_h) W^O, where head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The layer `query` holds
    the matrices W^Q of all heads side by side. `key_value` holds the matrices W^K of all heads, followed by all W^V, so
    that a single matrix multiplication computes both keys and values. `output` is the output projection W^O. Model
    files use these names.
    """

    def __init__(self, spec: AttentionSpec, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.query = nn.Linear(d_model, spec.heads * spec.d_k, bias=spec.bias)
        self.key_value = nn.Linear(d_model, spec.heads * (spec.d_k + spec.d_v), bias=spec.bias)
        self.output = nn.Linear(spec.heads * spec.d_v, d_model, bias=spec.bias)
        self.compatibility = spec.compatibility.build(spec.heads, spec.d_k)
        self.core: nn.Module = FusedCore()

    def forward(
        self,
        states: Float[Tensor, "rows new d_model"],
        keys_values: tuple[Keys, Values],
        visible: Visible | None = None,
        causal: bool = False,
        rows: HypothesisRows | None = None,
    ) -> Float[Tensor, "rows new d_model"]:
        """Computes the attention output of each hidden state over `keys_values`.

        In a search, `rows` describes which hypothesis each row of `states` belongs to, and `visible` is a mask over the
        rectangle in which `rows` arranges the hypotheses.
        """
        attended = self.attend(self.project_query(states, rows), keys_values, visible, causal)
        return self.output(attended if rows is None else rows.from_rectangle(attended))

    def attend(
        self,
        query: Queries,
        keys_values: tuple[Keys, Values],
        visible: Visible | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch target heads_d_v"]:
        """Returns the weighted sums of the values with all heads concatenated, before the output projection."""
        dropout = self.spec.dropout if self.training else 0.0
        return self.core(self.compatibility, query, *keys_values, visible, causal, dropout).transpose(1, 2).flatten(2)

    def weights(
        self,
        states: Float[Tensor, "batch target d_model"],
        key_states: Float[Tensor, "batch source d_model"],
        visible: Visible | None = None,
        causal: bool = False,
    ) -> Weights:
        """Returns the attention weights of each head, with queries from `states` and keys from `key_states`."""
        query, (keys, _) = self.project_query(states), self.project_key_value(key_states)
        return ExplicitCore().weights(self.compatibility, query, keys, visible, causal)

    def project_query(self, states: Float[Tensor, "rows new d_model"], rows: HypothesisRows | None = None) -> Queries:
        """Computes the queries x W^Q and splits them into heads."""
        query = self.query(states)
        return self._split(query if rows is None else rows.to_rectangle(query), self.spec.d_k)

    def project_key_value(
        self, states: Float[Tensor, "rows new d_model"], rows: HypothesisRows | None = None
    ) -> tuple[Keys, Values]:
        """Computes the keys x W^K and the values x W^V, and splits both into heads."""
        projected = self.key_value(states) if rows is None else rows.to_rectangle(self.key_value(states))
        keys, values = projected.split([self.spec.heads * width for width in (self.spec.d_k, self.spec.d_v)], dim=-1)
        return self._split(keys, self.spec.d_k), self._split(values, self.spec.d_v)

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Applies self-attention to whole sentences."""
        return self(states, self.project_key_value(states), visible, causal)

    def step(
        self, states: Float[Tensor, "rows new d_model"], context: DecodingContext
    ) -> Float[Tensor, "rows new d_model"]:
        """Applies self-attention to the new tokens, and appends their keys and values to the cache.

        Each new token attends to the earlier tokens of its row and to itself.
        """
        keys_values = context.cache.extend(*self.project_key_value(states, context.rows))
        return self(states, keys_values, context.visible, rows=context.rows)

    def _split(self, projected: Tensor, width: int) -> Tensor:
        """Reshapes `projected` [batch length heads·width] to [batch heads length width]."""
        return projected.unflatten(-1, (self.spec.heads, width)).transpose(1, 2)
