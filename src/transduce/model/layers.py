"""An encoder layer of two sub-layers and a decoder layer of three (section 3.1)."""

from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.attention import Attention, Values, Visible
from transduce.model.attention_scores import Keys
from transduce.model.experts import Network
from transduce.model.kv_cache import DecodingContext
from transduce.model.mixers import Mixer
from transduce.model.residual import WRAPPERS
from transduce.settings import Spec


class LayerSpec(Spec):
    """What the layers of a stack share."""

    d_model: int
    mixer: Mixer
    cross: Attention
    feed_forward: Network
    norm: str
    norm_epsilon: float
    dropout: float

    def wrapper(self) -> nn.Module:
        """A fresh residual connection with its norm and dropout."""
        return WRAPPERS[self.norm](self.d_model, self.dropout, self.norm_epsilon)


class EncoderLayer(nn.Module):
    """Self-attention over the source, or what stands in for it, then the feed-forward network."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.mixer = spec.mixer.build(spec.d_model)
        self.feed_forward = spec.feed_forward.build(spec.d_model)
        self.around_mixer = spec.wrapper()
        self.around_feed_forward = spec.wrapper()

    def forward(
        self, states: Float[Tensor, "batch source d_model"], visible: Visible
    ) -> Float[Tensor, "batch source d_model"]:
        """The states one layer higher."""
        states = self.around_mixer(states, lambda inner: self.mixer.mix(inner, visible, causal=False))
        raised: Tensor = self.around_feed_forward(states, self.feed_forward)
        return raised


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.mixer = spec.mixer.build(spec.d_model)
        self.cross = spec.cross.build(spec.d_model)
        self.feed_forward = spec.feed_forward.build(spec.d_model)
        self.around_mixer = spec.wrapper()
        self.around_cross = spec.wrapper()
        self.around_feed_forward = spec.wrapper()

    def forward(
        self,
        states: Float[Tensor, "rows new d_model"],
        memory: tuple[Keys, Values] | Float[Tensor, "batch source d_model"],
        visible: Visible,
        past: DecodingContext | None = None,
    ) -> Float[Tensor, "rows new d_model"]:
        """The states one layer higher.

        `memory` is the encoder's output, or what `cross` has remembered of it; `visible` is the encoder's. Without a
        `past` the states are whole sentences and each looks at itself and those before it; with one they are new tokens
        of its rows, appended to its cache.
        """
        rows = past.rows if past else None
        known = self.cross.remember(memory) if isinstance(memory, Tensor) else memory
        states = self.around_mixer(
            states, lambda inner: self.mixer.step(inner, past) if past else self.mixer.mix(inner, None, causal=True)
        )
        states = self.around_cross(states, lambda inner: self.cross(inner, known, visible, rows=rows))
        raised: Tensor = self.around_feed_forward(states, self.feed_forward)
        return raised
