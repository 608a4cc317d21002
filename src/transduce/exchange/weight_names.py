"""The names of the layers' weights in other formats, as tables, and the weights of all layers by these names.

`FAIRSEQ` are the names of fairseq, which Hugging Face's Marian and Pegasus classes share; `MARIAN` are those of Marian.
Imports and exports read the same tables.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transduce.exchange.imported_model import ForeignTensors
from transduce.exchange.transformer_weights import Array, Linear, NormWeights, TransformerWeights
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer

ATTENTION = {"query": "q", "key_value": "kv", "output": "o"}
NETWORK = {"inner": "1", "outer": "2"}
"""Our linear maps, each with the maps of other formats that it holds one after another."""


class LayerNames(NamedTuple):
    """The names of a format: a weight is that of the layer, of the part and of the map, one after another.

    Marian calls W^Q of the decoder's second self-attention `decoder_l2_self_Wq`, fairseq
    `decoder.layers.1.self_attn.q_proj.weight`.
    """

    layer: str
    first: int  # number of the first layer
    parts: Mapping[str, str]  # by our names
    norms: Mapping[str, str]
    maps: Mapping[str, str]
    weight: str  # of a map
    bias: str
    scale: str  # of a norm
    shift: str
    last_norm: str  # of the norm after the last layer
    is_transposed: bool  # matrices are [inputs outputs], and biases are matrices of one row


FAIRSEQ = LayerNames(
    layer="{side}.layers.{number}.",
    first=0,
    parts={"mixer": "self_attn.", "cross": "encoder_attn.", "feed_forward": ""},
    norms={"mixer": "self_attn_layer_norm", "cross": "encoder_attn_layer_norm", "feed_forward": "final_layer_norm"},
    maps={"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj", "1": "fc1", "2": "fc2"},
    weight="{}.weight",
    bias="{}.bias",
    scale="{}.weight",
    shift="{}.bias",
    last_norm="{side}.layer_norm",
    is_transposed=False,
)
MARIAN = LayerNames(
    layer="{side}_l{number}_",
    first=1,
    parts={"mixer": "self_", "cross": "context_", "feed_forward": "ffn_"},
    norms={"mixer": "self_Wo", "cross": "context_Wo", "feed_forward": "ffn_ffn"},
    maps={name: name for name in "qkvo12"},
    weight="W{}",
    bias="b{}",
    scale="{}_ln_scale",
    shift="{}_ln_bias",
    last_norm="{side}",  # there is none
    is_transposed=True,
)


def take_layers(tensors: ForeignTensors, model: Transformer, names: LayerNames, prefix: str = "") -> dict[str, Tensor]:
    """Returns the weights of all layers and of the norms after the last ones; `prefix` stands before every name."""
    assert isinstance(model.feed_forward, FeedForward)
    d_model, d_ff = model.d_model, model.feed_forward.d_ff
    sizes = {"1": (d_ff, d_model), "2": (d_model, d_ff)}  # outputs and inputs, where they are not both d_model
    weights: dict[str, Tensor] = {}

    def take_matrix(name: str, outputs: int, inputs: int) -> Tensor:
        return tensors.take(name, inputs, outputs).T if names.is_transposed else tensors.take(name, outputs, inputs)

    def take_vector(name: str, size: int) -> Tensor:
        return tensors.take(name, 1, size)[0] if names.is_transposed else tensors.take(name, size)

    def take_norm(name: str, ours: str) -> None:
        weights[f"{ours}.weight"] = take_vector(names.scale.format(name), d_model)
        weights[f"{ours}.bias"] = take_vector(names.shift.format(name), d_model)

    for side, count in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number in range(count):
            layer = prefix + names.layer.format(side=side, number=number + names.first)
            for part in ("mixer", "cross", "feed_forward") if side == "decoder" else ("mixer", "feed_forward"):
                place = layer + names.parts[part]
                # Old models of fairseq have W^Q, W^K and W^V in one matrix.
                for kind, shape in (("weight", (3 * d_model, d_model)), ("bias", (3 * d_model,))):
                    if f"{place}in_proj_{kind}" in tensors:
                        tensors.split(
                            f"{place}in_proj_{kind}", [f"{place}{name}_proj.{kind}" for name in "qkv"], *shape
                        )
                for ours, letters in (NETWORK if part == "feed_forward" else ATTENTION).items():
                    size = sizes.get(letters, (d_model, d_model))
                    maps = [names.maps[letter] for letter in letters]
                    matrices = [take_matrix(place + names.weight.format(name), *size) for name in maps]
                    biases = [take_vector(place + names.bias.format(name), size[0]) for name in maps]
                    weights[f"{side}.{number}.{part}.{ours}.weight"] = torch.cat(matrices).contiguous()
                    weights[f"{side}.{number}.{part}.{ours}.bias"] = torch.cat(biases)
                take_norm(layer + names.norms[part], f"{side}.{number}.around_{part}.norm")
        if model.norm == "pre":
            take_norm(prefix + names.last_norm.format(side=side), f"{side}_norm")
    return weights


def named_layers(weights: TransformerWeights, names: LayerNames, prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Yields the weights of all layers and of the norms after the last ones; `prefix` stands before every name."""

    def vector(values: Array) -> Array:
        return values[None] if names.is_transposed else values

    def part(layer: str, kind: str, maps: Mapping[str, Linear], norm: NormWeights) -> Iterator[tuple[str, Array]]:
        for letter, linear in maps.items():
            place, name = layer + names.parts[kind], names.maps[letter]
            matrix = np.ascontiguousarray(linear.weight.T) if names.is_transposed else linear.weight
            yield place + names.weight.format(name), matrix
            yield place + names.bias.format(name), vector(linear.bias_or_zeros())
        yield layer + names.scale.format(names.norms[kind]), vector(norm.scale)
        yield layer + names.shift.format(names.norms[kind]), vector(norm.shift)

    for side, layers, last in (
        ("encoder", weights.encoder, weights.encoder_norm),
        ("decoder", weights.decoder, weights.decoder_norm),
    ):
        for number, layer in enumerate(layers, start=names.first):
            place = prefix + names.layer.format(side=side, number=number)
            for kind, attention in (("mixer", layer.attention), ("cross", layer.cross)):
                if attention is not None:
                    query, key, value, output, norm = attention
                    yield from part(place, kind, {"q": query, "k": key, "v": value, "o": output}, norm)
            yield from part(place, "feed_forward", {"1": layer.inner, "2": layer.outer}, layer.norm)
        if last is not None:
            name = prefix + names.last_norm.format(side=side)
            yield names.scale.format(name), last.scale
            yield names.shift.format(name), last.shift
