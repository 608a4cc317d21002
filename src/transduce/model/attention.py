"""Multi-head attention (section 3.2) and the cache that makes it incremental.

A mask is True where one may look. The arithmetic of attention is a *core* without parameters, fused or explicit;
the explicit one keeps its weights, for pictures, and stands in for the fused one only there.
"""

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.rows import Rows
from transduce.settings import Spec

Keys = Float[Tensor, "batch heads source d_k"]
Values = Float[Tensor, "batch heads source d_v"]
Visible = Bool[Tensor, "#batch #target source"]
Slots = Bool[Tensor, "batch target slots"]


class Attention(Spec):
    """Scaled dot-product attention with several heads (section 3.2.2); d_k and d_v are free of d_model / heads."""

    kind: Literal["attention"] = "attention"
    heads: int = Field(ge=1)
    d_k: int = Field(ge=1)
    d_v: int = Field(ge=1)
    bias: bool = False
    dropout: float = Field(default=0.0, ge=0, lt=1)

    def build(self, d_model: int) -> "MultiHeadAttention":
        """The module, for states of width `d_model`."""
        return MultiHeadAttention(self, d_model)


class FusedCore(nn.Module):
    """softmax(QKᵀ / √d_k) V in as few calls as the device wants."""

    def forward(
        self,
        query: Float[Tensor, "batch heads target d_k"],
        keys: Keys,
        values: Values,
        visible: Visible | None,
        causal: bool,
        dropout: float,
    ) -> Float[Tensor, "batch heads target d_v"]:
        """Equation 1, every head at once; `causal` stands for a triangle of `visible`."""
        if not query.is_cpu:
            mask = None if visible is None else visible.unsqueeze(1)
            return functional.scaled_dot_product_attention(
                query, keys, values, attn_mask=mask, is_causal=causal, dropout_p=dropout
            )
        # On a CPU torch's one call is made for long sentences: at a sentence's length it takes twice as long as this,
        # and in bfloat16 its gradient takes twenty times as long.
        scores = (query * query.shape[-1] ** -0.5) @ keys.transpose(-1, -2)
        lowest = torch.finfo(scores.dtype).min / 2
        if visible is not None:
            scores = scores.add_((~visible).to(scores.dtype).mul_(lowest).unsqueeze(1))
        if causal:
            scores = scores.add_(scores.new_full(scores.shape[-2:], lowest).triu_(1))
        weights = functional.dropout(scores.softmax(-1), dropout, training=dropout > 0)
        return weights @ values


class ExplicitCore(nn.Module):
    """Equation 1 step by step; the weights of the last call stay in `weights`."""

    weights: Float[Tensor, "batch heads target source"] | None = None

    def forward(
        self,
        query: Float[Tensor, "batch heads target d_k"],
        keys: Keys,
        values: Values,
        visible: Visible | None,
        causal: bool,
        dropout: float,
    ) -> Float[Tensor, "batch heads target d_v"]:
        """Equation 1, every head at once; `causal` stands for a triangle of `visible`."""
        scores = query @ keys.transpose(-1, -2) / math.sqrt(query.shape[-1])
        if visible is not None:
            scores = scores.masked_fill(~visible.unsqueeze(1), -math.inf)
        if causal:
            ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(ahead, -math.inf)
        self.weights = scores.softmax(-1)
        return functional.dropout(self.weights, dropout, training=dropout > 0) @ values


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (section 3.2.2).

    `query` holds every head's W^Q side by side, `key_value` every head's W^K and then every head's W^V, so that
    what is looked at is projected once, by one product.
    """

    def __init__(self, spec: Attention, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.query = nn.Linear(d_model, spec.heads * spec.d_k, bias=spec.bias)
        self.key_value = nn.Linear(d_model, spec.heads * (spec.d_k + spec.d_v), bias=spec.bias)
        self.join = nn.Linear(spec.heads * spec.d_v, d_model, bias=spec.bias)
        self.core: nn.Module = FusedCore()

    def forward(
        self,
        states: Float[Tensor, "rows new d_model"],
        memory: tuple[Keys, Values],
        visible: Visible | None = None,
        causal: bool = False,
        rows: Rows | None = None,
    ) -> Float[Tensor, "rows new d_model"]:
        """What each state gathers from the keys and values of `remember`, where `visible` lets it look.

        In a search, `rows` are the hypotheses whose states these are; `visible` is of their rectangle.
        """
        dropout = self.spec.dropout if self.training else 0.0
        query = self.query(states)
        heads = self._split(query if rows is None else rows.spread(query), self.spec.d_k)
        gathered = self.core(heads, *memory, visible, causal, dropout).transpose(1, 2).flatten(2)
        joined: Tensor = self.join(gathered if rows is None else rows.collect(gathered))
        return joined

    def remember(self, states: Float[Tensor, "rows new d_model"], rows: Rows | None = None) -> tuple[Keys, Values]:
        """Keys and values of what may be looked at: computed once, used by every query."""
        width = self.spec.heads * self.spec.d_k
        projected = self.key_value(states) if rows is None else rows.spread(self.key_value(states))
        keys, values = projected[..., :width], projected[..., width:]
        return self._split(keys, self.spec.d_k), self._split(values, self.spec.d_v)

    def _split(self, joined: Tensor, width: int) -> Tensor:
        """[batch length heads·width] → [batch heads length width]."""
        return joined.unflatten(-1, (self.spec.heads, width)).transpose(1, 2)


class Cache:
    """Keys and values of the words written so far, one slot a word, by sentence; appended in place, never reordered.

    Which slots belong to a hypothesis is a mask that the decoder's state carries (`transformer.State.ancestors`):
    reordering a beam then moves a few bits and not the cache.
    """

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None, used: int = 0) -> None:
        self._keys, self._values, self.used = keys, values, used

    def extend(
        self, keys: Float[Tensor, "batch heads new d_k"], values: Float[Tensor, "batch heads new d_v"]
    ) -> tuple[Float[Tensor, "batch heads slots d_k"], Float[Tensor, "batch heads slots d_v"]]:
        """Appends new slots; gives all that are in use, as views."""
        start, self.used = self.used, self.used + keys.shape[2]
        self._keys = _written(self._keys, keys, start)
        self._values = _written(self._values, values, start)
        return self._keys[:, :, : self.used], self._values[:, :, : self.used]

    def keep(self, sentences: Tensor) -> "Cache":
        """The cache of the chosen sentences alone."""
        if self._keys is None or self._values is None:
            return self
        return Cache(self._keys[sentences], self._values[sentences], self.used)


class Past(NamedTuple):
    """What a decoder layer knows of the words before the new ones, in a search."""

    cache: Cache
    visible: Slots  # which slots, old and new, each new word may look at
    rows: Rows


def _written(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """`buffer` with `new` at slot `start`; grown to twice its need where it is too short."""
    end = start + new.shape[2]
    if buffer is None or buffer.shape[2] < end:
        grown = new.new_empty(*new.shape[:2], max(2 * end, 32), new.shape[3])
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:end] = new
    return buffer
