"""What a model is made of: its parameters by part, and the arithmetic of a word."""

from pathlib import Path
from typing import Any

from transduce.model import ModelSpec, TranslationModel, Vocabulary, build_without_weights
from transduce.model.flops import flops
from transduce.model_directory import Model
from transduce.recipe.presets import PRESETS
from transduce.recipe.recipe import Recipe, expanded, load
from transduce.settings import Spec, validated

__all__ = ["described"]

VOCABULARY = 37_000  # the paper's, for English–German


class Sized(Spec):
    """What of a preset makes its size."""

    model: ModelSpec


def described(what: str, vocabulary: int | None = None) -> dict[str, Any]:
    """Parameters, parameters by part, arithmetic, vocabulary and spec of a preset, a recipe or a run."""
    spec, sizes = _found(what, vocabulary)
    model = build_without_weights(spec, sizes)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "parameters_by_part": _by_part(model),
        "flops_per_target_token": sum(flops(spec, sizes)),
        "vocabulary": sizes.as_dictionary(),
        "spec": spec.as_dictionary(),
    }


def _found(what: str, vocabulary: int | None) -> tuple[ModelSpec, Vocabulary]:
    """The model's spec and vocabulary, by the name of a preset or the path of a recipe or run."""
    path = Path(what)
    if what in PRESETS:
        model = expanded({"model": {"preset": what}}, place=what)["model"]
        return validated(Sized, {"model": model}, place=what).model, _both(vocabulary or VOCABULARY)
    if path.is_dir():
        config = Model.read_config(path)
        return config.model, _both(vocabulary) if vocabulary else config.vocabulary
    if path.is_file():
        recipe: Recipe = load(path)
        return recipe.model, _both(vocabulary or recipe.subwords.size)
    raise ValueError(f"{what} is no preset ({', '.join(PRESETS)}), no recipe and no model directory")


def _both(size: int) -> Vocabulary:
    return Vocabulary(source=size, target=size)


def _by_part(model: TranslationModel) -> dict[str, int]:
    """Of embeddings, positions, encoder, decoder, readout; a shared matrix counts once, where it is first."""
    parts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = "positions" if ".positions." in name else name.split(".")[0].removesuffix("_norm")
        parts[part] = parts.get(part, 0) + parameter.numel()
    return parts
