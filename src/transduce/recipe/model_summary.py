"""Summarises a model: the number of its parameters by component, its FLOPs, and its settings."""

from pathlib import Path
from typing import Any

from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary, build_without_weights, flops
from transduce.model_directory.manifest import MANIFEST
from transduce.model_directory.model import Model
from transduce.recipe.presets import all_presets, find_preset
from transduce.recipe.recipe import load, merge_preset
from transduce.search.beam import Decoding
from transduce.settings import Spec, did_you_mean, validated
from transduce.storage.nearby_paths import did_you_mean_model

VOCABULARY = 37_000  # the paper's vocabulary for English–German
TREE_SYMBOLS = 100  # approximate number of different symbols in the linearised trees of a treebank


class _PresetModel(Spec):
    """The sections of a preset that the summary needs."""

    model: ModelSpec
    decoding: Decoding


def summarise_model(name: str, vocabulary: int | None = None) -> dict[str, Any]:
    """Returns the number of parameters, the FLOPs and the settings of a preset, a recipe or a run.

    `vocabulary` is the number of subwords on each side. By default, it is the number in the run or the recipe. The
    default for a preset is 37,000, except for parsers, whose presets specify the number. A parser that has not been
    trained is assumed to have `TREE_SYMBOLS` target symbols. A parameter matrix that several components share is
    counted once.
    """
    spec, sizes, decoding = _read_spec(name, vocabulary)
    model = build_without_weights(spec, sizes)
    by_part: dict[str, int] = {}  # a shared matrix is counted once, in the first part that has it
    for parameter_name, parameter in model.named_parameters():
        part = "positions" if ".positions." in parameter_name else parameter_name.split(".")[0].removesuffix("_norm")
        by_part[part] = by_part.get(part, 0) + parameter.numel()
    return {
        "parameters": sum(by_part.values()),
        "parameters_by_part": by_part,
        "flops_per_target_token": sum(flops(spec, sizes)),
        "vocabulary": sizes.as_dictionary(),
        "spec": spec.as_dictionary(),
        "decoding": decoding.as_dictionary(),
    }


def _read_spec(name: str, vocabulary: int | None) -> tuple[ModelSpec, Vocabulary, Decoding]:
    """Returns the spec, the vocabulary sizes and the decoding settings of a preset, a recipe file or a run directory.

    Raises ValueError if `name` is none of these.
    """
    path, is_parser = Path(name), False
    if preset := find_preset(name):
        merged = merge_preset({"model": {"preset": name}}, place=name)
        chosen = validated(_PresetModel, {key: merged[key] for key in ("model", "decoding")}, place=name)
        spec, decoding = chosen.model, chosen.decoding
        is_parser = preset["training"].get("validate_by") == "f1"
        size = vocabulary or (merged["subwords"]["size"] if is_parser else VOCABULARY)
    elif path.is_dir():
        config = Model.read_config(path)
        if not vocabulary:
            return config.model, config.vocabulary, config.decoding
        is_parser = config.linearisation is not None
        spec, size, decoding = config.model, vocabulary, config.decoding
    elif path.is_file():
        recipe = load(path)
        spec, size, decoding = recipe.model, vocabulary or recipe.subwords.size, recipe.decoding
        is_parser = recipe.data.tree_linearisation is not None
    else:
        fault = f"{name} is not a preset ({', '.join(all_presets())}), a recipe or a model directory"
        raise ValueError(f"{fault}{did_you_mean(name, all_presets()) or did_you_mean_model(Path(name), MANIFEST)}")
    return spec, Vocabulary(source=size, target=TREE_SYMBOLS if is_parser else size), decoding
