"""Multi-head attention (section 3.2).

A mask is True where one may look, and the same for every head. The arithmetic of attention is a *core* without
parameters, which is why it is given the compatibility that its attention owns; fused or explicit: the explicit one
keeps its weights, and stands in for the fused one only where these are looked at.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention_scores import Compatibility, DotProduct, Keys, Queries, ScaledDot
from transduce.model.hypothesis_rows import HypothesisRows
from transduce.model.kv_cache import DecodingContext
from transduce.settings import Spec

Values = Float[Tensor, "batch heads source d_v"]
Visible = Bool[Tensor, "#batch #target source"]

VECTOR = 16  # the numbers in the longest vectors of processors


class AttentionSpec(Spec):
    """Several heads of attention (section 3.2.2); d_k and d_v are free of d_model / heads."""

    heads: int = Field(ge=1)
    d_k: int = Field(ge=1)
    d_v: int = Field(ge=1)
    bias: bool = False
    dropout: float = Field(default=0.0, ge=0, lt=1)
    compatibility: Compatibility = ScaledDot()

    def products(self, d_model: int, seen: int | float, *, causal: bool = False) -> int | float:
        """Multiplications of a token that attends to itself and others, `seen` in all."""
        widths = self.heads * (self.d_k + self.d_v)
        return 2 * d_model * widths + seen * widths + self.compatibility.products(self.heads, self.d_k)


class Attention(AttentionSpec):
    """Every position attends to every other, in the decoder to every one before it."""

    kind: Literal["attention"] = "attention"

    def build(self, d_model: int) -> "MultiHeadAttention":
        """The module, for states of width `d_model`."""
        return MultiHeadAttention(self, d_model)


class FusedCore(nn.Module):
    """softmax(QKᵀ / √d_k) V in as few calls as the device wants."""

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
        """Equation 1, every head at once.

        `causal` stands for a triangle of `visible`; `dropout` is of the weights, and 0 but in training.
        """
        if not query.is_cpu and isinstance(compatibility, DotProduct):
            mask = None if visible is None else visible.unsqueeze(1)
            query, scale = compatibility.turned(query), compatibility.scale
            return functional.scaled_dot_product_attention(
                query, keys, values, attn_mask=mask, is_causal=causal, dropout_p=dropout, scale=scale
            )
        # torch's one call is built for long sequences. On a CPU, at a sentence's length, it takes twice as long as
        # these lines, and in bfloat16 its gradient twenty times as long.
        products = compatibility(query, keys)
        # In float32 at least: torch takes short rows of narrower numbers one by one.
        scores = products.to(torch.promote_types(products.dtype, torch.float32))
        # Not −∞: two masks add up to a number, and a place that may look nowhere gives no NaN. Beside one open place
        # its softmax is 0 all the same.
        lowest = torch.finfo(scores.dtype).min / 2
        if visible is not None:
            scores = scores.add_((~visible).to(scores.dtype).mul_(lowest).unsqueeze(1))
        if causal:
            scores = scores.add_(scores.new_full(scores.shape[-2:], lowest).triu_(1))
        weights = functional.dropout(_softmax(scores).to(products.dtype), dropout, training=dropout > 0)
        return weights @ values


def _softmax(scores: Float[Tensor, "*rows places"]) -> Float[Tensor, "*rows places"]:
    """The softmax over places; on a CPU torch takes rows shorter than a vector one by one, and so they are longer."""
    missing = VECTOR - scores.shape[-1]
    if missing <= 0 or not scores.is_cpu:
        return scores.softmax(-1)
    return functional.pad(scores, (0, missing), value=-math.inf).softmax(-1)[..., :-missing]


class ExplicitCore(nn.Module):
    """Equation 1 step by step; the weights of the last call stay in `weights`."""

    weights: Float[Tensor, "batch heads target source"] | None = None

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
        """As the fused core."""
        scores = compatibility(query, keys)
        if visible is not None:
            scores = scores.masked_fill(~visible.unsqueeze(1), -math.inf)
        if causal:
            ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(ahead, -math.inf)
        self.weights = scores.softmax(-1)
        return functional.dropout(self.weights, dropout, training=dropout > 0) @ values


@contextlib.contextmanager
def explicit_cores(model: nn.Module) -> Iterator[dict[nn.Module, ExplicitCore]]:
    """All multi-head attention in `model`, each with a core that keeps its weights as long as this lasts."""
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    fused = [attention.core for attention in attentions]
    cores: dict[nn.Module, ExplicitCore] = {attention: ExplicitCore() for attention in attentions}
    try:
        for attention in attentions:
            attention.core = cores[attention]
        yield cores
    finally:
        for attention, core in zip(attentions, fused, strict=True):
            attention.core = core


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_h) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (section 3.2.2).

    `query` holds every head's W^Q side by side, `key_value` every head's W^K and then every head's W^V, so that
    what is looked at is projected once, by one product; `join` is W^O.
    """

    def __init__(self, spec: AttentionSpec, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.query = nn.Linear(d_model, spec.heads * spec.d_k, bias=spec.bias)
        self.key_value = nn.Linear(d_model, spec.heads * (spec.d_k + spec.d_v), bias=spec.bias)
        self.join = nn.Linear(spec.heads * spec.d_v, d_model, bias=spec.bias)
        self.compatibility = spec.compatibility.build(spec.heads, spec.d_k)
        self.core: nn.Module = FusedCore()

    def forward(
        self,
        states: Float[Tensor, "rows new d_model"],
        memory: tuple[Keys, Values],
        visible: Visible | None = None,
        causal: bool = False,
        rows: HypothesisRows | None = None,
    ) -> Float[Tensor, "rows new d_model"]:
        """What each state gathers from the keys and values of `remember`, where `visible` lets it look.

        In a search, `rows` are the hypotheses whose states these are; `visible` is of their rectangle.
        """
        gathered = self.attend(self.ask(states, rows), memory, visible, causal)
        joined: Tensor = self.join(gathered if rows is None else rows.collect(gathered))
        return joined

    def attend(
        self,
        query: Queries,
        memory: tuple[Keys, Values],
        visible: Visible | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch target joined"]:
        """What every head gathers, side by side."""
        dropout = self.spec.dropout if self.training else 0.0
        gathered: Tensor = self.core(self.compatibility, query, *memory, visible, causal, dropout)
        return gathered.transpose(1, 2).flatten(2)

    def ask(self, states: Float[Tensor, "rows new d_model"], rows: HypothesisRows | None = None) -> Queries:
        """x W^Q, head by head."""
        query = self.query(states)
        return self._split(query if rows is None else rows.spread(query), self.spec.d_k)

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Self-attention of whole sentences."""
        mixed: Tensor = self(states, self.remember(states), visible, causal)
        return mixed

    def step(
        self, states: Float[Tensor, "rows new d_model"], past: DecodingContext
    ) -> Float[Tensor, "rows new d_model"]:
        """Self-attention of new tokens to themselves and those before them."""
        memory = past.cache.extend(*self.remember(states, past.rows))
        mixed: Tensor = self(states, memory, past.visible, rows=past.rows)
        return mixed

    def remember(
        self, states: Float[Tensor, "rows new d_model"], rows: HypothesisRows | None = None
    ) -> tuple[Keys, Values]:
        """x W^K and x W^V of what may be looked at, head by head: computed once, used by every query."""
        projected = self.key_value(states) if rows is None else rows.spread(self.key_value(states))
        keys, values = projected.split([self.spec.heads * width for width in (self.spec.d_k, self.spec.d_v)], dim=-1)
        return self._split(keys, self.spec.d_k), self._split(values, self.spec.d_v)

    def _split(self, joined: Tensor, width: int) -> Tensor:
        """[batch length heads·width] → [batch heads length width]."""
        return joined.unflatten(-1, (self.spec.heads, width)).transpose(1, 2)
