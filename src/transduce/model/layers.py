"""The encoder layer, which has two sub-layers, and the decoder layer, which has three (section 3.1)."""

from typing import Annotated, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.attention import Attention, MultiHeadAttention, Weights
from transduce.model.attention_scores import Keys, Values
from transduce.model.decoder_state import DecodingContext
from transduce.model.feed_forward import FeedForwardSpec, MixtureOfExperts
from transduce.model.local_attention import LocalAttention
from transduce.model.mixer import MixerSpec, Visible
from transduce.model.residual import WRAPPERS, PostNorm, PreNorm
from transduce.settings import ByKind, Spec

MIXERS = ByKind(
    {
        "attention": Attention,
        "local_attention": LocalAttention,
        "convolution": "transduce.paper.models.convolution_mixers:Convolution",
        "separable_convolution": "transduce.paper.models.convolution_mixers:SeparableConvolution",
    }
)
MixerByKind = Annotated[MixerSpec, MIXERS]


class LayerSpec(Spec):
    """Settings that all layers of the encoder and the decoder share."""

    d_model: int
    mixer: MixerByKind
    cross: Attention
    feed_forward: FeedForwardSpec
    norm: str
    norm_epsilon: float
    dropout: float

    def wrapper(self) -> PostNorm | PreNorm:
        """Builds the residual connection around a sub-layer, with its LayerNorm and dropout."""
        return WRAPPERS[self.norm](self.d_model, self.dropout, self.norm_epsilon)


class LayerOutput(NamedTuple):
    """The hidden states after a layer, and the auxiliary loss of its mixture of experts.

    The auxiliary loss is None outside training, and if the layer has no mixture of experts.
    """

    states: Float[Tensor, "rows new d_model"]
    penalty: Float[Tensor, ""] | None = None


class EncoderLayer(nn.Module):
    """An encoder layer: self-attention or another mixer, followed by the feed-forward network."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.mixer = spec.mixer.build(spec.d_model)
        self.feed_forward = spec.feed_forward.build(spec.d_model)
        self.around_mixer = spec.wrapper()
        self.around_feed_forward = spec.wrapper()

    def forward(self, states: Float[Tensor, "batch source d_model"], visible: Visible) -> LayerOutput:
        """Applies the layer to the hidden states of whole sentences."""
        mixed = self.mixer.mix(self.around_mixer.sublayer_input(states), visible, causal=False)
        return _feed_forward(self, self.around_mixer(states, mixed))

    def attention_weights(self, states: Float[Tensor, "batch source d_model"], visible: Visible) -> Weights:
        """Returns the self-attention weights; the arguments are the same as for `forward`."""
        inputs = self.around_mixer.sublayer_input(states)
        assert type(self.mixer) is MultiHeadAttention
        return self.mixer.weights(inputs, inputs, visible)


class DecoderLayer(nn.Module):
    """A decoder layer with three sub-layers.

    They are masked self-attention or another mixer, attention over the encoder output, and the feed-forward network.
    """

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
        context: DecodingContext | None = None,
    ) -> LayerOutput:
        """Applies the layer to the hidden states.

        `memory` is the encoder output, or the keys and values that `cross` has already computed from it. `visible` is
        the mask of the source. Without a `context`, `states` contains whole sentences, to which a causal mask is
        applied. With a `context`, `states` contains only the new tokens of the context's rows, and their keys and
        values are appended to its cache.
        """
        rows = context.rows if context else None
        key_value = self.cross.project_key_value(memory) if isinstance(memory, Tensor) else memory
        states = self._mix(states, context)
        inputs = self.around_cross.sublayer_input(states)
        states = self.around_cross(states, self.cross(inputs, key_value, visible, rows=rows))
        return _feed_forward(self, states)

    def attention_weights(
        self,
        states: Float[Tensor, "batch target d_model"],
        encoded: Float[Tensor, "batch source d_model"],
        visible: Visible,
    ) -> tuple[Float[Tensor, "batch _ target target"], Float[Tensor, "batch _ target source"]]:
        """Returns the weights of self-attention and of cross-attention, for whole sentences."""
        inputs = self.around_mixer.sublayer_input(states)
        assert type(self.mixer) is MultiHeadAttention
        weights = self.mixer.weights(inputs, inputs, causal=True)
        return weights, self.cross_weights(states, encoded, visible)

    def cross_weights(
        self,
        states: Float[Tensor, "batch target d_model"],
        encoded: Float[Tensor, "batch source d_model"],
        visible: Visible,
    ) -> Float[Tensor, "batch _ target source"]:
        """Returns the weights of attention over the encoder output, for whole sentences."""
        inputs = self.around_cross.sublayer_input(self._mix(states, None))
        return self.cross.weights(inputs, encoded, visible)

    def _mix(
        self, states: Float[Tensor, "rows new d_model"], context: DecodingContext | None
    ) -> Float[Tensor, "rows new d_model"]:
        """Applies the first sub-layer, which is masked self-attention or another mixer."""
        inputs = self.around_mixer.sublayer_input(states)
        mixed = self.mixer.step(inputs, context) if context else self.mixer.mix(inputs, None, causal=True)
        return self.around_mixer(states, mixed)


def _feed_forward(layer: EncoderLayer | DecoderLayer, states: Float[Tensor, "rows new d_model"]) -> LayerOutput:
    """Applies the feed-forward network, the last sub-layer of both kinds of layer."""
    inputs, penalty = layer.around_feed_forward.sublayer_input(states), None
    if isinstance(layer.feed_forward, MixtureOfExperts):
        transformed, penalty = layer.feed_forward(inputs)
    else:
        transformed = layer.feed_forward(inputs)
    return LayerOutput(layer.around_feed_forward(states, transformed), penalty)
