"""What a model is made of: its parameters by part, and the arithmetic of a word."""

from pathlib import Path
from typing import Any

import torch

from transduce.directory import CONFIG, Model
from transduce.model import Transformer, TransformerModel, Vocabulary
from transduce.presets import PRESETS
from transduce.recipe import Recipe, expanded, load
from transduce.settings import validated

__all__ = ["described", "flops"]

VOCABULARY = 37_000  # the paper's, for English–German
LENGTH = 25  # words a sentence, about what WMT's have: attention's share depends on it


def described(what: str, vocabulary: int | None = None) -> dict[str, Any]:
    """Parameters, parameters by part, arithmetic, vocabulary and spec of a preset, a recipe or a run."""
    spec, sizes = _found(what, vocabulary)
    with torch.device("meta"):
        model = spec.build(sizes)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "parameters_by_part": _by_part(model),
        "flops_per_target_token": sum(flops(spec, sizes)),
        "vocabulary": sizes.as_dictionary(),
        "spec": spec.as_dictionary(),
    }


def _found(what: str, vocabulary: int | None) -> tuple[Transformer, Vocabulary]:
    """The model's spec and vocabulary, by the name of a preset or the path of a recipe or run."""
    path = Path(what)
    if what in PRESETS:
        values = expanded({"model": {"preset": what}}, place=what)["model"]
        return validated(Transformer, values, place=what), _both(vocabulary or VOCABULARY)
    if (path / CONFIG).exists():
        config = Model.read_config(path)
        return config.model, _both(vocabulary) if vocabulary else config.vocabulary
    if path.is_file():
        recipe: Recipe = load(path)
        return recipe.model, _both(vocabulary or recipe.subwords.size)
    raise ValueError(f"{what} is no preset ({', '.join(PRESETS)}), no recipe and no model directory")


def _both(size: int) -> Vocabulary:
    return Vocabulary(source=size, target=size)


def _by_part(model: TransformerModel) -> dict[str, int]:
    """Of embeddings, positions, encoder, decoder, readout; a shared matrix counts once, where it is first."""
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = "positions" if ".positions." in name else name.split(".")[0].removesuffix("_norm")
        parts[part] = parts.get(part, 0) + parameter.numel()
    return parts


def flops(spec: Transformer, vocabulary: Vocabulary, length: int = LENGTH) -> tuple[int, int]:
    """Floating-point operations, forward, of reading one source word and of writing one target word.

    Every product of matrices counts, a multiplication and an addition each; attention is counted between sentences of
    `length` words, seeing all of them (half of them, on average, where it is masked). Training takes three times that.
    """
    mixer, cross = (attention.heads * (attention.d_k + attention.d_v) for attention in (spec.mixer, spec.cross))
    network = 2 * spec.d_model * spec.feed_forward.d_ff
    layer = 2 * spec.d_model * mixer + network
    # The keys and values that attention over the source needs are made once a source word, in every decoder layer.
    remembered = spec.d_model * cross
    read = spec.encoder_layers * (layer + length * mixer) + spec.decoder_layers * remembered
    written = spec.decoder_layers * (layer + remembered + length * mixer // 2 + length * cross)
    return 2 * read, 2 * (written + spec.d_model * vocabulary.target)
