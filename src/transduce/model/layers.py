"""An encoder layer of two sub-layers and a decoder layer of three (section 3.1)."""

from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.attention import Attention, Keys, MultiHeadAttention, Past, Values, Visible
from transduce.model.feed_forward import FeedForward
from transduce.model.residual import WRAPPERS
from transduce.settings import Spec


class LayerSpec(Spec):
    """What the layers of a stack share."""

    d_model: int
    mixer: Attention
    cross: Attention
    feed_forward: FeedForward
    norm: str
    norm_epsilon: float
    dropout: float

    def wrapper(self) -> nn.Module:
        """A fresh residual connection with its norm and dropout."""
        return WRAPPERS[self.norm](self.d_model, self.dropout, self.norm_epsilon)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.attention = spec.mixer.build(spec.d_model)
        self.feed_forward = spec.feed_forward.build(spec.d_model)
        self.around_attention = spec.wrapper()
        self.around_feed_forward = spec.wrapper()

    def forward(
        self, states: Float[Tensor, "batch source d_model"], visible: Visible
    ) -> Float[Tensor, "batch source d_model"]:
        """The states one layer higher."""
        states = self.around_attention(
            states, lambda inner: self.attention(inner, self.attention.remember(inner), visible)
        )
        raised: Tensor = self.around_feed_forward(states, self.feed_forward)
        return raised


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.attention = spec.mixer.build(spec.d_model)
        self.cross = spec.cross.build(spec.d_model)
        self.feed_forward = spec.feed_forward.build(spec.d_model)
        self.around_attention = spec.wrapper()
        self.around_cross = spec.wrapper()
        self.around_feed_forward = spec.wrapper()

    def forward(
        self,
        states: Float[Tensor, "rows new d_model"],
        memory: tuple[Keys, Values],
        visible: Visible,
        past: Past | None = None,
    ) -> Float[Tensor, "rows new d_model"]:
        """The states one layer higher.

        `memory` and `visible` are the encoder's. Without a `past` the states are whole sentences and each looks
        at itself and those before it; with one they are new words of its rows, appended to its cache.
        """
        rows = past.rows if past else None
        states = self.around_attention(states, lambda inner: self._attend(inner, past))
        states = self.around_cross(states, lambda inner: self.cross(inner, memory, visible, rows=rows))
        raised: Tensor = self.around_feed_forward(states, self.feed_forward)
        return raised

    def _attend(self, states: Tensor, past: Past | None) -> Tensor:
        """Masked self-attention over the whole sentence, or over the cache."""
        attention: MultiHeadAttention = self.attention
        if past is None:
            whole: Tensor = attention(states, attention.remember(states), causal=True)
            return whole
        memory = past.cache.extend(*attention.remember(states, past.rows))
        stepped: Tensor = attention(states, memory, past.visible, rows=past.rows)
        return stepped
