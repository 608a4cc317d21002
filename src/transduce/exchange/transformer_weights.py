"""The weights of a Transformer in the layout that other engines share, as float32 arrays, and as int8.

Every attention has one number of heads and one width of a head, and scores its keys by q · k / √width. Other numbers of
heads, d_k ≠ d_v, the plain dot product and the bilinear one are brought into this form without a change of the output:
missing heads and dimensions are zeros, scales and matrices are multiplied into W^Q.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.model.attention import Attention, MultiHeadAttention
from transduce.model.attention_scores import BilinearProduct, DotProduct
from transduce.model.feed_forward import FeedForwardNetwork
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model_directory.model import Model

Array = NDArray[np.float32]
Order = NDArray[np.int64] | slice
"""The order of dimensions."""

AS_THEY_ARE = slice(None)

TABLE_POSITIONS = 2048  # of a sentence, where an engine stores a vector for each and the model has no limit

# x86 processors without VNNI add two products of a weight and an unsigned byte in 16 bits: 2 · 255 · 64 is below 2¹⁵.
LARGEST_INT8 = 64


class Linear(NamedTuple):
    """A linear map x Wᵀ + b."""

    weight: Array  # [out in]
    bias: Array | None  # [out]

    def bias_or_zeros(self) -> Array:
        """Returns the bias, zeros where there is none."""
        return np.zeros(len(self.weight), np.float32) if self.bias is None else self.bias


class NormWeights(NamedTuple):
    """A layer normalisation."""

    scale: Array  # [d_model]
    shift: Array  # [d_model]


class AttentionMatrices(NamedTuple):
    """W^Q, W^K, W^V [heads·width d_model] and W^O [d_model heads·width] of an attention, and its normalisation."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    norm: NormWeights


class LayerWeights(NamedTuple):
    """A layer: its attentions, and the two maps of its feed-forward network with their normalisation."""

    attention: AttentionMatrices
    cross: AttentionMatrices | None  # over the source, of a layer of the decoder
    inner: Linear
    outer: Linear
    norm: NormWeights


class TransformerWeights(NamedTuple):
    """All weights of a Transformer, the embeddings before they are multiplied by √d_model.

    With `spec.first_input` "zeros" the vector of the begin symbol in `target_embedding` is not used.
    """

    spec: Transformer
    heads: int
    width: int  # of a head
    source_embedding: Array  # [vocabulary d_model]
    target_embedding: Array  # [vocabulary d_model]
    encoder: tuple[LayerWeights, ...]
    decoder: tuple[LayerWeights, ...]
    encoder_norm: NormWeights | None  # None with post-norm
    decoder_norm: NormWeights | None
    readout: Linear


def attentions_of(spec: Transformer) -> tuple[Attention, Attention]:
    """Returns the settings of self-attention and of attention over the source, of an accepted model."""
    assert isinstance(spec.mixer, Attention)
    return spec.mixer, spec.cross


def transformer_weights(model: Model, order: Order = AS_THEY_ARE) -> TransformerWeights:
    """Returns the weights of a model that `check_products` accepts, the dimensions of its states in `order`."""
    module, spec = model.module, model.config.model
    assert isinstance(module, TransformerModel)
    assert isinstance(spec, Transformer)
    attentions = attentions_of(spec)
    heads = max(attention.heads for attention in attentions)
    width = max(max(attention.d_k, attention.d_v) for attention in attentions)

    def norm_of(norm: nn.Module) -> NormWeights:
        assert isinstance(norm, nn.LayerNorm)
        return NormWeights(_array(norm.weight)[order], _array(norm.bias)[order])

    def layer_of(layer: nn.Module) -> LayerWeights:
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        network, cross = layer.feed_forward, None
        assert isinstance(network, FeedForwardNetwork)
        if isinstance(layer, DecoderLayer):
            cross = AttentionMatrices(*_projections(layer.cross, heads, width, order), norm_of(layer.around_cross.norm))
        return LayerWeights(
            AttentionMatrices(*_projections(layer.mixer, heads, width, order), norm_of(layer.around_mixer.norm)),
            cross,
            _linear(network.inner.weight, network.inner.bias, inputs=order),
            _linear(network.outer.weight, network.outer.bias, outputs=order),
            norm_of(layer.around_feed_forward.norm),
        )

    has_last_norms = isinstance(module.encoder_norm, nn.LayerNorm)
    return TransformerWeights(
        spec,
        heads,
        width,
        np.ascontiguousarray(_array(module.source_embedding.weight)[:, order]),
        np.ascontiguousarray(_array(module.target_embedding.weight)[:, order]),
        tuple(layer_of(layer) for layer in module.encoder),
        tuple(layer_of(layer) for layer in module.decoder),
        norm_of(module.encoder_norm) if has_last_norms else None,
        norm_of(module.decoder_norm) if has_last_norms else None,
        _linear(module.readout.weight, module.readout.bias, inputs=order),
    )


def position_tables(model: Model) -> tuple[Array, Array]:
    """Returns the vectors [positions d_model] of source and target: `TABLE_POSITIONS`, or fewer that are learned."""
    assert isinstance(model.module, TransformerModel)
    count = min(model.module.max_positions or TABLE_POSITIONS, TABLE_POSITIONS)
    embeddings = model.module.source_embedding, model.module.target_embedding
    with torch.inference_mode():
        source, target = (_array(embedding.positions(0, count)) for embedding in embeddings)
    return source, target


def int8_rows(matrix: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Returns a matrix [outputs inputs] as integers from −64 to 64, and the scale of each output.

    The matrix is the integers times the scales; every processor multiplies integers of this range exactly.
    """
    scales = np.maximum(np.abs(matrix).max(1) / LARGEST_INT8, np.finfo(np.float32).tiny)
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def _projections(attention: nn.Module, heads: int, width: int, order: Order) -> tuple[Linear, Linear, Linear, Linear]:
    """Returns W^Q, W^K, W^V and W^O of an attention as one of `heads` heads of `width`, with zeros for the others."""
    assert isinstance(attention, MultiHeadAttention)
    spec = attention.spec
    sizes = spec.heads * spec.d_k, spec.heads * spec.d_v

    def padded(tensor: Tensor, narrow: int) -> Tensor:
        """Returns rows [spec.heads·narrow …] as [heads·width …]."""
        split = tensor.detach().view(spec.heads, narrow, -1)
        whole = split.new_zeros(heads, width, split.shape[2])
        whole[: spec.heads, :narrow] = split
        return whole.reshape(heads * width, *tensor.shape[1:])

    weights = [_scaled_query(attention, attention.query.weight, width), *attention.key_value.weight.split(sizes)]
    biases: list[Tensor | None] = [None, None, None]
    if attention.query.bias is not None:
        biases = [_scaled_query(attention, attention.query.bias, width), *attention.key_value.bias.split(sizes)]
    query, key, value = (
        _linear(padded(weight, narrow), None if bias is None else padded(bias, narrow), inputs=order)
        for weight, bias, narrow in zip(weights, biases, (spec.d_k, spec.d_k, spec.d_v), strict=True)
    )
    output = torch.zeros(len(attention.output.weight), heads, width)
    output[:, : spec.heads, : spec.d_v] = attention.output.weight.detach().unflatten(1, (spec.heads, spec.d_v))
    return query, key, value, _linear(output.flatten(1), attention.output.bias, outputs=order)


def _scaled_query(attention: MultiHeadAttention, part: Tensor, width: int) -> Tensor:
    """Returns W^Q or its bias such that q · k / √width are the scores of the attention."""
    compatibility, spec = attention.compatibility, attention.spec
    assert isinstance(compatibility, DotProduct)
    split = part.detach().double().view(spec.heads, spec.d_k, -1)
    if isinstance(compatibility, BilinearProduct):
        split = compatibility.weight.detach().double().transpose(1, 2) @ split
    return (compatibility.scale * width**0.5 * split).float().reshape(part.shape)


def _linear(
    weight: Tensor, bias: Tensor | None, *, outputs: Order = AS_THEY_ARE, inputs: Order = AS_THEY_ARE
) -> Linear:
    matrix = np.ascontiguousarray(_array(weight)[outputs][:, inputs])
    return Linear(matrix, None if bias is None else _array(bias)[outputs])


def _array(tensor: Tensor) -> Array:
    """Returns the tensor as a contiguous float32 array, which may share its memory."""
    array: Array = tensor.detach().float().contiguous().numpy()
    return array
