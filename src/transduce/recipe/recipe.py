"""The recipe: all settings of a run as one record, which is built from a file, a preset and `--set` options."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from transduce.corpus.corpus_kinds import PATHS, is_folder
from transduce.corpus.data_spec import DataSpec
from transduce.model.model_spec import ModelSpec
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Symbols
from transduce.recipe.decoding import check_decoding
from transduce.recipe.presets import PRESETS, Values, all_presets, find_preset
from transduce.recipe.recipe_values import (
    fill_variables,
    make_absolute,
    parse_change,
    read_yaml,
    without_corpora,
)
from transduce.search.beam import Decoding
from transduce.settings import Spec, did_you_mean, merged, type_in_words, validated
from transduce.text.byte_level import BEGIN, END, PAD
from transduce.text.subword_training import Bpe, SubwordsSpec
from transduce.training.training_settings import Training

if TYPE_CHECKING:
    from transduce.recipe.starting_point import StartingPoint


class Recipe(Spec):
    """All settings of a run: its data, subwords, model, training and decoding."""

    data: DataSpec = Field(description="Corpora for training, validation and testing.")
    subwords: SubwordsSpec = Field(default=Bpe(), description="Subword segmentation and vocabulary.")
    model: ModelSpec = Field(description="Name of a `preset`, by default `base`, and settings that override it.")
    training: Training = Field(
        default=Training(), description="Duration, batches, learning rate, validation and checkpoints."
    )
    decoding: Decoding = Field(default=Decoding(), description="Beam search settings.")

    @classmethod
    def load(cls, path: str | Path, changes: Iterable[str] = (), *, start_from: str | Path | None = None) -> "Recipe":
        """Loads the recipe in the YAML file `path`. Each `KEY=VALUE` in `changes` overrides a value of the file.

        If `start_from` is a model directory, the recipe is for fine-tuning that model. The file may then contain only
        `data`, because all other settings default to the settings of the model.
        """
        from transduce.recipe.starting_point import StartingPoint  # which imports this module

        if not isinstance(path, str | Path):
            raise TypeError(f"`path` is {type_in_words(path)}: name a recipe, a file .yaml")
        if isinstance(changes, str | Mapping):
            kind = type_in_words(changes)
            raise TypeError(f"`changes` is {kind}: give a list of KEY=VALUE, such as ['training.steps=1000']")
        return load(Path(path), changes, start=StartingPoint.of(Path(start_from)) if start_from else None)

    @model_validator(mode="after")
    def _check_symbols(self) -> "Recipe":
        """Raises ValueError if the model's padding, BOS and EOS ids differ from the ids in the subwords.

        Only imported models may have other ids.
        """
        if self.model.symbols != Symbols(pad=PAD, begin=BEGIN, end=END):
            raise ValueError(f"model.symbols must be pad {PAD}, begin {BEGIN}, end {END}, as the subwords have them")
        return self

    @model_validator(mode="after")
    def _check_sharing(self) -> "Recipe":
        """Raises ValueError if embeddings are shared although the two sides have different vocabularies."""
        if not self.subwords.shared and self.model.embeddings == "shared":
            raise ValueError("`subwords.shared: false` makes two vocabularies: set `model.embeddings: separate` too")
        return self

    @model_validator(mode="after")
    def _check_parsing(self) -> "Recipe":
        """Raises ValueError if a recipe for trees has settings for translation, or vice versa."""
        is_parser, measure = self.data.tree_linearisation is not None, self.training.validate_by
        if is_parser and self.subwords.shared:
            raise ValueError(
                "trees have words on one side and symbols on the other: set `subwords.shared: false` and "
                "`model.embeddings: separate`, as the preset `parser-small` does"
            )
        if not is_parser and isinstance(self.model, Transformer) and self.model.next_word:
            raise ValueError("`model.next_word` is for parsers, which learn trees: set it to false")
        check_decoding(self.decoding, is_parser=is_parser)
        if measure != "loss" and is_parser != (measure == "f1"):
            name = measure if isinstance(measure, str) else "{command: ...}"
            raise ValueError(
                f"`training.validate_by: {name}` measures {'translations' if is_parser else 'trees'}: "
                f"set {'f1' if is_parser else 'bleu'}, or loss"
            )
        return self

    @model_validator(mode="after")
    def _check_patience(self) -> "Recipe":
        """Raises ValueError if `patience` is set but there is no validation set."""
        if self.training.patience is not None and self.data.validation is None:
            raise ValueError("`training.patience` counts validations: name a corpus in `data.validation`")
        return self

    @model_validator(mode="after")
    def _check_regulariser(self) -> "Recipe":
        """Raises ValueError if R-Drop is used without dropout, because its two forward passes would then be equal."""
        if self.training.regulariser is not None and not _has_dropout(self.model.as_dictionary()):
            raise ValueError(
                "`training.regulariser: {kind: r_drop}` compares two passes that differ by dropout alone, and the "
                "model has none: set `model.dropout`, or leave the regulariser out"
            )
        return self


def _has_dropout(settings: Mapping[str, Any]) -> bool:
    return any(
        _has_dropout(value) if isinstance(value, Mapping) else key == "dropout" and value > 0
        for key, value in settings.items()
    )


def load(path: Path, changes: Iterable[str] = (), start: "StartingPoint | None" = None) -> Recipe:
    """Loads the recipe in `path`.

    Each `KEY=VALUE` in `changes` overrides a value of the file. If the run starts from a model, `start`, both override
    the settings of that model. Paths in the file are relative to its folder, and paths in `changes` are relative to the
    working directory. Raises ValueError, which names the file, the key and the remedy, if the recipe is not valid.
    """
    return from_values(read_values(path), changes, place=str(path), start=start)


def read_values(path: Path) -> dict[str, Any]:
    """Reads the values in a YAML recipe.

    Environment variables are substituted, and the paths of corpora are made absolute.
    """
    values: dict[str, Any] = fill_variables(read_yaml(path), path)
    values["data"] = make_absolute(values.get("data", {}), path.parent)
    return values


def from_values(
    values: Mapping[str, Any], changes: Iterable[str] = (), *, place: str, start: "StartingPoint | None" = None
) -> Recipe:
    """Builds a recipe from `values`. Each `KEY=VALUE` in `changes` overrides one of them.

    Settings that are not specified are taken from `start`, the model that the run starts from, or else from a preset.
    Raises ValueError if the recipe is not valid; the message refers to it as `place`.
    """
    for change in changes:
        values = merged(without_corpora(values, change), parse_change(change))
    resolved = merge_preset(values, place=place) if start is None else start.resolve(values, place=place)
    recipe = validated(Recipe, resolved, place=place)
    try:
        recipe.data.check_held_out() if start is None else start.check_data(recipe.data)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return recipe


def read_resolved_recipe(path: Path) -> Recipe:
    """Reads a recipe that a run wrote, which contains all settings.

    Raises ValueError if the file is not such a recipe.
    """
    return validated(Recipe, read_yaml(path), place=str(path))


def merge_preset(values: Mapping[str, Any], *, place: str) -> dict[str, Any]:
    """Merges `values` over the preset that `model` names, and the preset over the defaults.

    If `model` does not name a preset, `base` is used.
    """
    preset, model = split_preset(values, place=place)
    sections = {"subwords": Bpe(), "training": Training(), "decoding": Decoding()}
    defaults = {section: spec.as_dictionary() for section, spec in sections.items()}
    resolved: dict[str, Any] = merged(merged(defaults, preset or PRESETS["base"]), {**values, "model": model})
    return resolved


def split_preset(values: Mapping[str, Any], *, place: str) -> tuple[Values | None, Values]:
    """Splits the section `model` into the preset that it names and its other keys.

    Returns None for the preset if the section does not name one. Raises ValueError if there is no preset with that
    name, or if the section is not a mapping.
    """
    section = {} if values.get("model") is None else values["model"]
    if not isinstance(section, Mapping):
        raise ValueError(
            f"{place}: `model` is {json.dumps(section)}: write `model: {{preset: NAME}}`, or the whole spec"
        )
    model = dict(section)
    if "preset" not in model:
        return None, model
    name = str(model.pop("preset"))
    preset = find_preset(name)
    if preset is None:
        meant = did_you_mean(name, all_presets())
        raise ValueError(f"{place}: there is no preset `{name}`{meant or ';'} presets: {', '.join(all_presets())}")
    return preset, model


def dump(recipe: Recipe) -> str:
    """Returns the recipe as YAML, including all defaults and all values from presets."""
    # JSON is valid YAML, and it preserves numbers like 1e-09.
    return json.dumps(recipe.as_dictionary(), indent=2, ensure_ascii=False) + "\n"


def without_training_paths(recipe: Any) -> Any:
    """Returns a recipe without the paths of its training data, because the data is identified by checksums."""
    match recipe:
        case {"data": {"train": [*corpora], **data}, **rest}:
            without_paths = [
                {
                    key: value
                    for key, value in corpus.items()
                    if key not in PATHS and not (key == "hub" and is_folder(str(value)))
                }
                if isinstance(corpus, dict)
                else corpus
                for corpus in corpora
            ]
            return {**rest, "data": {**data, "train": without_paths}}
    return recipe
