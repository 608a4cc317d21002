"""Describes the formats in which other programs store Transformers: their settings, and the names of their weights.

The descriptions are read from `foreign_formats.yaml`. Imports and exports use the same ones.
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
"""`ATTENTION` and `NETWORK` list the linear maps of the other formats that each of our linear maps concatenates.

Each letter or digit is a key of `LayerNames.maps`.
"""


class LayerNames(Spec):
    """The names of the weights in a format. A full name consists of the names of a layer, a part and a linear map.

    For example, W^Q of the self-attention in the second decoder layer is called `decoder_l2_self_Wq` by Marian, and
    `decoder.layers.1.self_attn.q_proj.weight` by fairseq.
    """

    layer: str
    first: int  # the number of the first layer
    parts: dict[str, str]  # by our names, as in `norms`
    norms: dict[str, str]
    maps: dict[str, str]
    weight: str  # of a linear map
    bias: str
    scale: str  # of a layer normalisation
    shift: str
    last_norm: str  # the layer normalisation after the last layer
    is_transposed: bool  # whether matrices are [inputs outputs] and biases are matrices with one row


class ForeignFormat(Spec):
    """The format of another program. The comment at the top of `foreign_formats.yaml` describes the fields."""

    defaults: dict[str, Any] = Field(default={})
    allowed: dict[str, tuple[Any, ...]]
    sizes: dict[str, tuple[str, ...]]
    layers: LayerNames
    written: dict[str, Any] = Field(default={})

    def settings_of(self, spec: Transformer) -> dict[str, Any]:
        """Returns the settings, including the sizes, that an export writes for a model."""
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
    """Returns the format called `name`, which is fairseq, hugging_face or marian."""
    file = files(__package__) / "foreign_formats.yaml"
    return validated(ForeignFormat, parse_yaml(file.read_bytes(), place=str(file))[name], place=f"{file}: {name}")


class NamedWeight(NamedTuple):
    """A weight in another format, and where it is in our weights.

    It is part number `chunk`, counted from 0, of our weight `ours`, which is split into `chunks` equal parts. `theirs`
    is its name in the other format.
    """

    ours: str
    chunk: int
    chunks: int
    theirs: str
    shape: tuple[int, ...]  # valid if d_k = d_v = d_model / heads; a matrix is [outputs inputs]


def layer_weights(model: Transformer, names: LayerNames) -> Iterator[NamedWeight]:
    """Yields the weights of all layers, and of the layer normalisations after the last layers."""
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
    """Yields the weights that `layer_weights` lists, under their names in another format.

    A bias that our model lacks is replaced by zeros.
    """
    for ours, chunk, chunks, theirs, shape in layer_weights(weights.spec, names):
        map_name, _, kind = ours.rpartition(".")
        whole = weights.tensors[ours] if kind == "weight" else weights.bias_or_zeros(map_name)
        array = np.split(whole, chunks)[chunk].copy()
        if names.is_transposed:
            array = array[None] if len(shape) == 1 else np.ascontiguousarray(array.T)
        yield theirs, array
