"""The weights of a Transformer, in the form in which compiled code reads them."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numba import types
from numba.experimental import structref
from torch import nn

from transduce.model.attention import MultiHeadAttention
from transduce.model.attention_scores import DotProduct
from transduce.model.compiled.compilation import cached
from transduce.model.compiled.products import Matrix, Product, pack
from transduce.model.compiled.rows import Floats
from transduce.model.transformer import TransformerModel


class Heads(NamedTuple):
    """The sizes of an attention module, and the factor `scale` by which its dot products are multiplied."""

    heads: int
    d_k: int
    d_v: int
    scale: np.float32


class SelfAttentionProducts(NamedTuple):
    """The matrices of self-attention.

    `project` computes the queries of all heads, then their keys, then their values.
    """

    heads: Heads
    project: Product
    output: Product


class CrossAttentionProducts(NamedTuple):
    """The matrices of the decoder's attention over the encoder output."""

    heads: Heads
    project: Product
    output: Product
    key_value: Product  # computes keys and values from the encoder output


class Network(NamedTuple):
    """The matrices of the feed-forward network max(0, x W1 + b1) W2 + b2 (equation 2)."""

    inner: Product
    outer: Product


class Norms(NamedTuple):
    """The LayerNorm parameters of all sub-layers, in order [sub-layers d_model].

    In a pre-norm model, the last entry belongs to the norm after the last layer.
    """

    is_pre_norm: bool
    gains: Floats
    shifts: Floats
    epsilon: np.float32


class Encoder(NamedTuple):
    """The weights of all encoder layers."""

    attention: SelfAttentionProducts
    network: Network
    norms: Norms


class Decoder(NamedTuple):
    """The weights of all decoder layers."""

    attention: SelfAttentionProducts
    cross: CrossAttentionProducts
    network: Network
    norms: Norms


class TokenTable(NamedTuple):
    """The target embedding matrix [vocabulary d_model], whose vectors are multiplied by `scale`.

    The token `blank` is embedded as zeros; if `blank` is −1, there is no such token.
    """

    vectors: Floats
    scale: np.float32
    blank: int


class CompiledWeights(NamedTuple):
    """All weights of a model except the source embedding and the positional encodings."""

    embedding: TokenTable
    encoder: Encoder
    decoder: Decoder
    readout: Product
    tokens: int  # size of the vocabulary


@structref.register
class WeightsHandleType(types.StructRef):
    """The numba type of a `WeightsHandle`."""


class WeightsHandle(structref.StructRefProxy):
    """A reference to the weights that compiled code accepts as an argument.

    If the weights themselves were passed, numba would need 30 µs to read all fifty arrays from Python.
    """

    weights: CompiledWeights  # only compiled code can read it


structref.define_proxy(WeightsHandle, WeightsHandleType, ["weights"])


@cached
def handle_of(weights: CompiledWeights) -> WeightsHandle:
    """Creates a handle for the weights; the handle keeps them in memory."""
    return WeightsHandle(weights)


def pack_weights(model: TransformerModel, *, int8: bool) -> CompiledWeights:
    """Packs the weights of a model into tiles, in float32 or in int8."""

    def product(parts: Iterable[Matrix]) -> Product:
        return pack(list(parts), int8=int8)

    def network(layers: Any) -> Network:
        networks = [layer.feed_forward for layer in layers]
        return Network(
            product(_matrix(part.inner) for part in networks), product(_matrix(part.outer) for part in networks)
        )

    def attention(layers: Any) -> SelfAttentionProducts:
        parts = [layer.mixer for layer in layers]
        return SelfAttentionProducts(
            _heads(parts[0]),
            product(_matrix(part.query, part.key_value) for part in parts),
            product(_matrix(part.output) for part in parts),
        )

    crosses = [layer.cross for layer in model.decoder]
    cross = CrossAttentionProducts(
        _heads(crosses[0]),
        product(_matrix(part.query) for part in crosses),
        product(_matrix(part.output) for part in crosses),
        product(_matrix(part.key_value) for part in crosses),
    )
    around_encoder = [part for layer in model.encoder for part in (layer.around_mixer, layer.around_feed_forward)]
    around_decoder = [
        part for layer in model.decoder for part in (layer.around_mixer, layer.around_cross, layer.around_feed_forward)
    ]
    embedding = model.target_embedding
    blank = -1 if embedding.blank is None else embedding.blank
    return CompiledWeights(
        TokenTable(embedding.weight.detach().numpy(), np.float32(embedding.scale), blank),
        Encoder(attention(model.encoder), network(model.encoder), _norms(around_encoder, model.encoder_norm)),
        Decoder(attention(model.decoder), cross, network(model.decoder), _norms(around_decoder, model.decoder_norm)),
        product([(model.readout.weight, model.readout.bias)]),
        len(model.readout.weight),
    )


def _matrix(*maps: nn.Linear) -> Matrix:
    """Concatenates linear layers with the same input into a single matrix and bias."""
    biases = [torch.zeros(part.out_features) if part.bias is None else part.bias.detach() for part in maps]
    return torch.cat([part.weight.detach() for part in maps]), torch.cat(biases)


def _heads(attention: Any) -> Heads:
    assert isinstance(attention, MultiHeadAttention)
    assert isinstance(attention.compatibility, DotProduct)
    spec = attention.spec
    return Heads(spec.heads, spec.d_k, spec.d_v, np.float32(attention.compatibility.scale))


def _norms(wrappers: Iterable[Any], last: nn.Module) -> Norms:
    """Stacks the norms of all sub-layers and, in a pre-norm model, the norm after the last layer."""
    is_pre_norm = isinstance(last, nn.LayerNorm)
    norms = [*(wrapper.norm for wrapper in wrappers), *([last] if isinstance(last, nn.LayerNorm) else [])]
    gains, shifts = (torch.stack([getattr(norm, name).detach() for norm in norms]) for name in ("weight", "bias"))
    return Norms(is_pre_norm, gains.numpy(), shifts.numpy(), np.float32(norms[0].eps))
