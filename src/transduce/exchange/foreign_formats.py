"""The formats of other programs' Transformers, from `foreign_formats.yaml`: settings, and names of the layers' weights.

Imports and exports read the same names.
"""

import functools
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from transduce.exchange.transformer_weights import Array, TransformerWeights
from transduce.model.feed_forward import FeedForward
from transduce.model.transformer import Transformer
from transduce.recipe.recipe_values import parse_yaml
from transduce.settings import Spec, validated

ATTENTION = {"query": "q", "key_value": "kv", "output": "o"}
NETWORK = {"inner": "1", "outer": "2"}
"""Our linear maps. Each concatenates the named maps of the other formats, in this order."""


class LayerNames(Spec):
    """How a format names weights: the name of the layer, then of the part, then of the map.

    Marian calls W^Q of the decoder's second self-attention `decoder_l2_self_Wq`, fairseq
    `decoder.layers.1.self_attn.q_proj.weight`.
    """

    layer: str
    first: int  # number of the first layer
    parts: dict[str, str]  # keys are our names
    norms: dict[str, str]
    maps: dict[str, str]
    weight: str  # of a map
    bias: str
    scale: str  # of a norm
    shift: str
    last_norm: str  # of the norm after the last layer
    is_transposed: bool  # matrices are [inputs outputs], and biases are matrices of one row


class ForeignFormat(Spec):
    """The format of a different program; see the comment at the top of `foreign_formats.yaml`."""

    defaults: dict[str, Any] = Field(default={})
    allowed: dict[str, tuple[Any, ...]]
    sizes: dict[str, tuple[str, ...]]
    layers: LayerNames
    written: dict[str, Any] = Field(default={})

    def settings_of(self, spec: Transformer) -> dict[str, Any]:
        """Returns the settings, including sizes, that an export writes for this model."""
        assert isinstance(spec.feed_forward, FeedForward)
        sizes = {
            "d_model": spec.d_model,
            "d_ff": spec.feed_forward.d_ff,
            "heads": spec.cross.heads,
            "encoder_layers": spec.encoder_layers,
            "decoder_layers": spec.decoder_layers,
        }
        return self.written | {name: sizes[size] for size, names in self.sizes.items() for name in names}


@functools.cache
def foreign_format(name: str) -> ForeignFormat:
    """Loads the format `fairseq`, `hugging_face` or `marian`."""
    file = files(__package__) / "foreign_formats.yaml"
    return validated(ForeignFormat, parse_yaml(file.read_bytes(), place=str(file))[name], place=f"{file}: {name}")


class NamedWeight(NamedTuple):
    """A weight in another format: part `chunk` of one of our weights, which is cut into `chunks` equal parts."""

    ours: str
    chunk: int
    chunks: int
    theirs: str
    shape: tuple[int, ...]  # if d_k = d_v = d_model / heads; a matrix is [outputs inputs]


def layer_weights(model: Transformer, names: LayerNames) -> Iterator[NamedWeight]:
    """Yields the weights of all layers and of the norms after the last ones."""
    assert isinstance(model.feed_forward, FeedForward)
    d_model, d_ff = model.d_model, model.feed_forward.d_ff
    sizes = {"1": (d_ff, d_model), "2": (d_model, d_ff)}  # [outputs inputs], if they are not both d_model

    def norm(ours: str, theirs: str) -> Iterator[NamedWeight]:
        yield NamedWeight(f"{ours}.weight", 0, 1, names.scale.format(theirs), (d_model,))
        yield NamedWeight(f"{ours}.bias", 0, 1, names.shift.format(theirs), (d_model,))

    for side, count in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for number in range(count):
            layer = names.layer.format(side=side, number=number + names.first)
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
            yield from norm(f"{side}_norm", names.last_norm.format(side=side))


def named_layers(weights: TransformerWeights, names: LayerNames) -> Iterator[tuple[str, Array]]:
    """Yields the weights of `layer_weights` by their names in another format; biases that our model lacks are zeros."""
    for ours, chunk, chunks, theirs, shape in layer_weights(weights.spec, names):
        map_name, _, kind = ours.rpartition(".")
        whole = weights.tensors[ours] if kind == "weight" else weights.bias_or_zeros(map_name)
        array = np.split(whole, chunks)[chunk].copy()
        if names.is_transposed:
            array = array[None] if len(shape) == 1 else np.ascontiguousarray(array.T)
        yield theirs, array
