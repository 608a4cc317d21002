"""The weights of a Transformer in the layout that other engines share, as float32 arrays.

Every attention has one number of heads and one width of a head, and scores its keys by q · k / √width. Other numbers of
heads, d_k ≠ d_v, the plain dot product and the bilinear one are brought into this form without a change of the output:
missing heads and dimensions are zeros, scales and matrices are multiplied into W^Q.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from transduce.model import Attention, Transformer, TransformerModel
from transduce.model.attention import MultiHeadAttention
from transduce.model.attention_scores import BilinearProduct, DotProduct
from transduce.model.feed_forward import FeedForwardNetwork
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model_directory import Model

__all__ = [
    "TABLE_POSITIONS",
    "Array",
    "AttentionMatrices",
    "DecoderLayerWeights",
    "EncoderLayerWeights",
    "Linear",
    "NetworkMatrices",
    "NormWeights",
    "TransformerWeights",
    "attentions_of",
    "position_tables",
    "transformer_weights",
]

Array = NDArray[np.float32]

TABLE_POSITIONS = 2048  # of a sentence, where an engine stores a vector for each and the model has no limit


class Linear(NamedTuple):
    """A linear map x Wᵀ + b."""

    weight: Array  # [out in]
    bias: Array | None  # [out]

    def with_inputs(self, order: NDArray[np.int64]) -> "Linear":
        """Returns the map for inputs in another order."""
        return Linear(np.ascontiguousarray(self.weight[:, order]), self.bias)

    def with_outputs(self, order: NDArray[np.int64]) -> "Linear":
        """Returns the map with its outputs in another order."""
        return Linear(np.ascontiguousarray(self.weight[order]), None if self.bias is None else self.bias[order])

    def bias_or_zeros(self) -> Array:
        """Returns the bias, zeros where there is none."""
        return np.zeros(len(self.weight), np.float32) if self.bias is None else self.bias


class NormWeights(NamedTuple):
    """A layer normalisation."""

    scale: Array  # [d_model]
    shift: Array  # [d_model]

    def reordered(self, order: NDArray[np.int64]) -> "NormWeights":
        """Returns the normalisation of states in another order."""
        return NormWeights(self.scale[order], self.shift[order])


class AttentionMatrices(NamedTuple):
    """W^Q, W^K, W^V [heads·width d_model] and W^O [d_model heads·width] of an attention, and its normalisation."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    norm: NormWeights

    def reordered(self, order: NDArray[np.int64]) -> "AttentionMatrices":
        """Returns the attention of states in another order."""
        query, key, value = (linear.with_inputs(order) for linear in (self.query, self.key, self.value))
        return AttentionMatrices(query, key, value, self.output.with_outputs(order), self.norm.reordered(order))


class NetworkMatrices(NamedTuple):
    """The two maps of a feed-forward network, and its normalisation."""

    inner: Linear
    outer: Linear
    norm: NormWeights

    def reordered(self, order: NDArray[np.int64]) -> "NetworkMatrices":
        """Returns the network of states in another order."""
        return NetworkMatrices(
            self.inner.with_inputs(order), self.outer.with_outputs(order), self.norm.reordered(order)
        )


class EncoderLayerWeights(NamedTuple):
    """A layer of the encoder."""

    attention: AttentionMatrices
    network: NetworkMatrices

    def reordered(self, order: NDArray[np.int64]) -> "EncoderLayerWeights":
        """Returns the layer of states in another order."""
        return EncoderLayerWeights(self.attention.reordered(order), self.network.reordered(order))


class DecoderLayerWeights(NamedTuple):
    """A layer of the decoder."""

    attention: AttentionMatrices
    cross: AttentionMatrices
    network: NetworkMatrices

    def reordered(self, order: NDArray[np.int64]) -> "DecoderLayerWeights":
        """Returns the layer of states in another order."""
        attention, cross = (part.reordered(order) for part in (self.attention, self.cross))
        return DecoderLayerWeights(attention, cross, self.network.reordered(order))


class TransformerWeights(NamedTuple):
    """All weights of a Transformer, the embeddings before they are multiplied by √d_model.

    With `spec.first_input` "zeros" the vector of the begin symbol in `target_embedding` is not used.
    """

    spec: Transformer
    heads: int
    width: int  # of a head
    source_embedding: Array  # [vocabulary d_model]
    target_embedding: Array  # [vocabulary d_model]
    encoder: tuple[EncoderLayerWeights, ...]
    decoder: tuple[DecoderLayerWeights, ...]
    encoder_norm: NormWeights | None  # None with post-norm
    decoder_norm: NormWeights | None
    readout: Linear

    def reordered(self, order: NDArray[np.int64]) -> "TransformerWeights":
        """Returns the same model with the dimensions of its states in another order."""
        encoder_norm, decoder_norm = (norm and norm.reordered(order) for norm in (self.encoder_norm, self.decoder_norm))
        return self._replace(
            source_embedding=np.ascontiguousarray(self.source_embedding[:, order]),
            target_embedding=np.ascontiguousarray(self.target_embedding[:, order]),
            encoder=tuple(layer.reordered(order) for layer in self.encoder),
            decoder=tuple(layer.reordered(order) for layer in self.decoder),
            encoder_norm=encoder_norm,
            decoder_norm=decoder_norm,
            readout=self.readout.with_inputs(order),
        )


def attentions_of(spec: Transformer) -> tuple[Attention, Attention]:
    """Returns the settings of self-attention and of attention over the source, of an accepted model."""
    assert isinstance(spec.mixer, Attention)
    return spec.mixer, spec.cross


def transformer_weights(model: Model) -> TransformerWeights:
    """Returns the weights of a model that `check_products` accepts."""
    module, spec = model.module, model.config.model
    assert isinstance(module, TransformerModel)
    assert isinstance(spec, Transformer)
    attentions = attentions_of(spec)
    heads = max(attention.heads for attention in attentions)
    width = max(max(attention.d_k, attention.d_v) for attention in attentions)
    encoder = tuple(_encoder_layer(layer, heads, width) for layer in module.encoder)
    decoder = tuple(_decoder_layer(layer, heads, width) for layer in module.decoder)
    return TransformerWeights(
        spec,
        heads,
        width,
        _array(module.source_embedding.weight),
        _array(module.target_embedding.weight),
        encoder,
        decoder,
        _last_norm(module.encoder_norm),
        _last_norm(module.decoder_norm),
        Linear(_array(module.readout.weight), None if module.readout.bias is None else _array(module.readout.bias)),
    )


def position_tables(model: Model) -> tuple[Array, Array]:
    """Returns the vectors [positions d_model] of source and target: `TABLE_POSITIONS`, or fewer that are learned."""
    assert isinstance(model.module, TransformerModel)
    count = min(model.module.max_positions or TABLE_POSITIONS, TABLE_POSITIONS)
    embeddings = model.module.source_embedding, model.module.target_embedding
    with torch.inference_mode():
        source, target = (_array(embedding.positions(0, count)) for embedding in embeddings)
    return source, target


def _encoder_layer(layer: EncoderLayer, heads: int, width: int) -> EncoderLayerWeights:
    return EncoderLayerWeights(
        _attention(layer.mixer, layer.around_mixer.norm, heads, width),
        _network(layer.feed_forward, layer.around_feed_forward.norm),
    )


def _decoder_layer(layer: DecoderLayer, heads: int, width: int) -> DecoderLayerWeights:
    return DecoderLayerWeights(
        _attention(layer.mixer, layer.around_mixer.norm, heads, width),
        _attention(layer.cross, layer.around_cross.norm, heads, width),
        _network(layer.feed_forward, layer.around_feed_forward.norm),
    )


def _attention(attention: nn.Module, norm: nn.LayerNorm, heads: int, width: int) -> AttentionMatrices:
    """Returns the matrices of an attention with `heads` heads of `width`."""
    assert isinstance(attention, MultiHeadAttention)
    spec, weight, bias = attention.spec, attention.key_value.weight, attention.key_value.bias
    keys = spec.heads * spec.d_k
    key = (weight[:keys], None if bias is None else bias[:keys])
    value = (weight[keys:], None if bias is None else bias[keys:])
    query = _scaled_query(attention, width)
    parts = zip((query, key, value), (spec.d_k, spec.d_k, spec.d_v), strict=True)
    projected = (Linear(*_padded(part, spec.heads, narrow, heads, width)) for part, narrow in parts)
    query_map, key_map, value_map = projected
    output = torch.zeros(len(attention.join.weight), heads, width)
    output[:, : spec.heads, : spec.d_v] = attention.join.weight.detach().unflatten(1, (spec.heads, spec.d_v))
    joined = Linear(_array(output.flatten(1)), None if attention.join.bias is None else _array(attention.join.bias))
    return AttentionMatrices(query_map, key_map, value_map, joined, _norm(norm))


def _scaled_query(attention: MultiHeadAttention, width: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Returns W^Q and its bias such that q · k / √width are the scores of the attention."""
    compatibility, spec = attention.compatibility, attention.spec
    assert isinstance(compatibility, DotProduct)
    factor = compatibility.scale * width**0.5
    parts = []
    for part in (attention.query.weight, attention.query.bias):
        if part is not None:
            split = part.detach().double().view(spec.heads, spec.d_k, -1)
            if isinstance(compatibility, BilinearProduct):
                split = compatibility.weight.detach().double().transpose(1, 2) @ split
            part = (factor * split).float().reshape(part.shape)
        parts.append(part)
    return parts[0], parts[1]


def _padded(
    part: tuple[torch.Tensor, torch.Tensor | None], heads: int, narrow: int, all_heads: int, width: int
) -> tuple[Array, Array | None]:
    """Returns a projection of `heads` heads of width `narrow`, with zeros for further heads and dimensions."""
    padded = []
    for tensor in part:
        if tensor is not None:
            split = tensor.detach().view(heads, narrow, -1)
            whole = split.new_zeros(all_heads, width, split.shape[2])
            whole[:heads, :narrow] = split
            tensor = whole.reshape(all_heads * width, *tensor.shape[1:])
        padded.append(None if tensor is None else _array(tensor))
    assert padded[0] is not None
    return padded[0], padded[1]


def _network(network: nn.Module, norm: nn.LayerNorm) -> NetworkMatrices:
    assert isinstance(network, FeedForwardNetwork)
    inner, outer = (Linear(_array(part.weight), _array(part.bias)) for part in (network.inner, network.outer))
    return NetworkMatrices(inner, outer, _norm(norm))


def _norm(norm: nn.LayerNorm) -> NormWeights:
    return NormWeights(_array(norm.weight), _array(norm.bias))


def _last_norm(norm: nn.Module) -> NormWeights | None:
    return _norm(norm) if isinstance(norm, nn.LayerNorm) else None


def _array(tensor: torch.Tensor) -> Array:
    """Returns the tensor as a contiguous float32 array, which may share its memory."""
    array: Array = tensor.detach().float().contiguous().numpy()
    return array
