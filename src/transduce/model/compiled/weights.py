"""The weights of a Transformer, in the form that compiled code reads."""

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
    """Sizes of an attention module; the score of a query and a key is multiplied by `scale`."""

    heads: int
    d_k: int
    d_v: int
    scale: np.float32


class SelfAttentionProducts(NamedTuple):
    """Self-attention; `project` computes the queries, then the keys, then the values of all heads."""

    heads: Heads
    project: Product
    output: Product


class CrossAttentionProducts(NamedTuple):
    """The decoder's attention to the encoder's output."""

    heads: Heads
    project: Product
    output: Product
    key_value: Product  # of the encoder's output


class Network(NamedTuple):
    """max(0, x W1 + b1) W2 + b2 (equation 2)."""

    inner: Product
    outer: Product


class Norms(NamedTuple):
    """LayerNorms of all sub-layers in order [sub-layers d_model]; with pre-norm, also the norm after the last layer."""

    is_pre_norm: bool
    gains: Floats
    shifts: Floats
    epsilon: np.float32


class Encoder(NamedTuple):
    """The encoder's layers."""

    attention: SelfAttentionProducts
    network: Network
    norms: Norms


class Decoder(NamedTuple):
    """The decoder's layers."""

    attention: SelfAttentionProducts
    cross: CrossAttentionProducts
    network: Network
    norms: Norms


class TokenTable(NamedTuple):
    """The target embedding [vocabulary d_model]; its vectors are multiplied by `scale`.

    The vector of the token `blank` is zeros; −1 means that no token is blank.
    """

    vectors: Floats
    scale: np.float32
    blank: int


class CompiledWeights(NamedTuple):
    """All weights of a model except its source embedding and its positions."""

    embedding: TokenTable
    encoder: Encoder
    decoder: Decoder
    readout: Product
    tokens: int  # size of the vocabulary


@structref.register
class WeightsHandleType(types.StructRef):
    """The type of `WeightsHandle` in compiled code."""


class WeightsHandle(structref.StructRefProxy):
    """A pointer to the weights for compiled code; numba would need 30 µs to read all fifty arrays from Python."""

    weights: CompiledWeights  # for compiled code only


structref.define_proxy(WeightsHandle, WeightsHandleType, ["weights"])


@cached
def handle_of(weights: CompiledWeights) -> WeightsHandle:
    """Creates a pointer to the weights, which keeps them in memory."""
    return WeightsHandle(weights)


def pack_weights(model: TransformerModel, *, int8: bool) -> CompiledWeights:
    """Packs the weights of a model into tiles."""

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
    """Concatenates linear maps of the same input into one map."""
    biases = [torch.zeros(part.out_features) if part.bias is None else part.bias.detach() for part in maps]
    return torch.cat([part.weight.detach() for part in maps]), torch.cat(biases)


def _heads(attention: Any) -> Heads:
    assert isinstance(attention, MultiHeadAttention)
    assert isinstance(attention.compatibility, DotProduct)
    spec = attention.spec
    return Heads(spec.heads, spec.d_k, spec.d_v, np.float32(attention.compatibility.scale))


def _norms(wrappers: Iterable[Any], last: nn.Module) -> Norms:
    """Stacks the norms of all sub-layers and, if the model is pre-norm, the last norm."""
    is_pre_norm = isinstance(last, nn.LayerNorm)
    norms = [*(wrapper.norm for wrapper in wrappers), *([last] if isinstance(last, nn.LayerNorm) else [])]
    gains, shifts = (torch.stack([getattr(norm, name).detach() for norm in norms]) for name in ("weight", "bias"))
    return Norms(is_pre_norm, gains.numpy(), shifts.numpy(), np.float32(norms[0].eps))
