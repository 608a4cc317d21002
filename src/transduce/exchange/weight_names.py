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
from transduce.exchange.transformer_weights import Array, TransformerWeights
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer

ATTENTION = {"query": "q", "key_value": "kv", "join": "o"}
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


class NamedWeight(NamedTuple):
    """A weight of another format: number `chunk` of the `chunks` equal parts of one of ours."""

    ours: str
    chunk: int
    chunks: int
    theirs: str
    shape: tuple[int, ...]  # in a model with d_k = d_v = d_model / heads; of a matrix [outputs inputs]


def layer_weights(model: Transformer, names: LayerNames, prefix: str) -> Iterator[NamedWeight]:
    """Yields the weights of all layers and of the norms after the last ones; `prefix` stands before every name."""
    assert isinstance(model.feed_forward, FeedForward)
    d_model, d_ff = model.d_model, model.feed_forward.d_ff
    sizes = {"1": (d_ff, d_model), "2": (d_model, d_ff)}  # outputs and inputs, where they are not both d_model

    def norm(ours: str, theirs: str) -> Iterator[NamedWeight]:
        yield NamedWeight(f"{ours}.weight", 0, 1, names.scale.format(theirs), (d_model,))
        yield NamedWeight(f"{ours}.bias", 0, 1, names.shift.format(theirs), (d_model,))

    for side, count in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number in range(count):
            layer = prefix + names.layer.format(side=side, number=number + names.first)
            for part in ("mixer", "cross", "feed_forward") if side == "decoder" else ("mixer", "feed_forward"):
                for ours, letters in (NETWORK if part == "feed_forward" else ATTENTION).items():
                    for chunk, letter in enumerate(letters):
                        shape = sizes.get(letter, (d_model, d_model))
                        name = f"{side}.{number}.{part}.{ours}"
                        for kind, pattern, size in (("weight", names.weight, shape), ("bias", names.bias, shape[:1])):
                            theirs = layer + names.parts[part] + pattern.format(names.maps[letter])
                            yield NamedWeight(f"{name}.{kind}", chunk, len(letters), theirs, size)
                yield from norm(f"{side}.{number}.around_{part}.norm", layer + names.norms[part])
        if model.norm == "pre":
            yield from norm(f"{side}_norm", prefix + names.last_norm.format(side=side))


def take_layers(tensors: ForeignTensors, model: Transformer, names: LayerNames, prefix: str = "") -> dict[str, Tensor]:
    """Returns the weights of `layer_weights` by our names."""
    parts: dict[str, list[Tensor]] = {}
    for ours, _, _, theirs, shape in layer_weights(model, names, prefix):
        # Old models of fairseq have W^Q, W^K and W^V in one matrix.
        joined = theirs.replace("q_proj.", "in_proj_")
        if joined != theirs and joined in tensors:
            tensors.split(joined, [theirs.replace("q_proj", f"{letter}_proj") for letter in "qkv"], shape)
        if not names.is_transposed:
            tensor = tensors.take(theirs, *shape)
        elif len(shape) == 1:
            tensor = tensors.take(theirs, 1, *shape)[0]
        else:
            tensor = tensors.take(theirs, *shape[::-1]).T
        parts.setdefault(ours, []).append(tensor)
    return {ours: torch.cat(tensors_of_name).contiguous() for ours, tensors_of_name in parts.items()}


def named_layers(weights: TransformerWeights, names: LayerNames, prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Yields the weights of `layer_weights` by the names of another format; biases that we lack are zeros."""
    for ours, chunk, chunks, theirs, shape in layer_weights(weights.spec, names, prefix):
        map_name, _, kind = ours.rpartition(".")
        whole = weights.tensors[ours] if kind == "weight" else weights.bias_or_zeros(map_name)
        array = np.split(whole, chunks)[chunk].copy()
        if names.is_transposed:
            array = array[None] if len(shape) == 1 else np.ascontiguousarray(array.T)
        yield theirs, array
