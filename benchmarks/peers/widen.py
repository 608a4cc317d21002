"""Writes a model of base's size that translates as a small one: `python benchmarks/peers/widen.py SMALL OUT`.

The speed of an engine depends on the size of a model and on the lengths of its translations. Training base takes hours,
so that this base computes what a trained model of the preset `tiny` computes: each of its states stands side by side
four times, which have the layer norm of one; heads, layers and units that `tiny` lacks add nothing. Positions are a
table, since the sinusoids of 512 dimensions are no copies of those of 128.
"""

import argparse
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from transduce.model.transformer import Transformer
from transduce.model.translation_model import build_without_weights
from transduce.model_directory.config import Config, Weights
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_model
from transduce.recipe.presets import PRESETS
from transduce.settings import merged, validated

POSITIONS = 512


class Widening:
    """Places the weights of a narrow model in a wide one."""

    def __init__(self, narrow: Transformer, wide: Transformer, weights: Mapping[str, Tensor]) -> None:
        self.narrow, self.wide, self.weights = narrow, wide, weights
        self.copies = wide.d_model // narrow.d_model

    def place(self, name: str, shape: torch.Size) -> Tensor:
        """Returns the weight `name` of the wide model, which has this shape."""
        if name.endswith("norm.weight") or name.endswith("norm.bias"):
            return self._norm(name, shape)
        placed = torch.zeros(shape)
        if name not in self.weights:  # of a layer that the narrow model lacks
            return placed
        weight = self.weights[name]
        match name.split(".")[-2:]:
            case "query", _:
                scale = math.sqrt(self.wide.mixer.d_k / self.narrow.mixer.d_k)  # of the scaled dot product
                return self._heads(self._inputs(weight) * scale)
            case "key_value", _:
                return torch.cat([self._heads(part) for part in self._inputs(weight).chunk(2)])
            case "output", _:
                return self._heads(self._outputs(weight).T).T.contiguous()
            case "inner", "weight":
                placed[: len(weight)] = self._inputs(weight)
            case "inner", "bias":
                placed[: len(weight)] = weight
            case "outer", "weight":
                placed[:, : weight.shape[1]] = self._outputs(weight)
            case "outer", "bias":
                return self._outputs(weight)
            case _:
                raise ValueError(f"no place for {name}")
        return placed

    def embedding(self) -> Tensor:
        """Returns the embeddings: they are multiplied by √d_model."""
        return self.weights["source_embedding.weight"].repeat(1, self.copies) / math.sqrt(self.copies)

    def _norm(self, name: str, shape: torch.Size) -> Tensor:
        """Returns a gain or a bias; the last of a stack moves into its last layer, the layers between change nothing.

        After the decoder the product with embeddings sums over the copies.
        """
        side, number, part = name.split(".", 2)
        layers, all_layers = (getattr(spec, f"{side}_layers") for spec in (self.narrow, self.wide))
        is_end = part.startswith("around_feed_forward")
        if int(number) < layers - is_end:
            return self._outputs(self.weights[name])
        if is_end and int(number) == all_layers - 1:
            last = self._outputs(self.weights[f"{side}.{layers - 1}.{part}"])
            return last / math.sqrt(self.copies) if side == "decoder" else last
        return torch.full(shape, float(name.endswith("weight")))

    def _inputs(self, weight: Tensor) -> Tensor:
        """Returns columns for copies of states, each with its share."""
        return weight.repeat(1, self.copies) / self.copies

    def _outputs(self, weight: Tensor) -> Tensor:
        """Returns rows that give copies of states."""
        return weight.repeat(self.copies, *[1] * (weight.dim() - 1))

    def _heads(self, rows: Tensor) -> Tensor:
        """Returns the rows of all heads, 0 for the heads and dimensions that the narrow model lacks."""
        narrow, wide = self.narrow.mixer, self.wide.mixer
        placed = rows.new_zeros(wide.heads, wide.d_k, rows.shape[1])
        placed[: narrow.heads, : narrow.d_k] = rows.unflatten(0, (narrow.heads, narrow.d_k))
        return placed.flatten(0, 1)


def main() -> None:
    """Reads the small model and writes the wide one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("small", type=Path, help="the directory of a model of the preset tiny with one vocabulary")
    parser.add_argument("out", type=Path, help="the directory to write")
    arguments = parser.parse_args()
    small = Model.read(arguments.small)
    if small.source is not small.target or small.config.model.embeddings != "shared":
        raise SystemExit(f"{arguments.small}: source and target have a vocabulary each; name a model with one for both")
    changes = {
        "embeddings": "shared",
        "positions": {"kind": "learned", "max_positions": POSITIONS},
        "norm_epsilon": small.config.model.norm_epsilon,
    }
    values = {
        "model": merged(PRESETS["base"]["model"], changes),
        "weights": Weights(kind="imported", steps=()).model_dump(),
    }
    config = validated(Config, merged(small.config.as_dictionary(), values), place="base")
    widening = Widening(small.config.model, config.model, weights_of(small.module))
    sinusoids = small.module.source_embedding.positions(0, POSITIONS)
    weights = {"source_embedding.weight": widening.embedding()}
    for name, parameter in build_without_weights(config.model, config.vocabulary).named_parameters():
        if name.endswith("positions.weight"):
            weights[name] = sinusoids.repeat(1, widening.copies)
        elif name not in weights:
            weights[name] = widening.place(name, parameter.shape)
    write_model(arguments.out, config, weights, (small.source, small.target), {})


if __name__ == "__main__":
    main()
