"""A recipe: everything that a training is told, from a file, a preset and `--set`, as one checked record."""

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from pydantic import model_validator
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError, SafeConstructor

from transduce.corpus import PATHS, DataSpec, is_folder
from transduce.model import ModelSpec, Symbols
from transduce.recipe.presets import PRESETS
from transduce.search import Decoding
from transduce.settings import DEEPEST, LONGEST_SHOWN, Spec, check_plain, merged, validated
from transduce.text.subwords import BEGIN, END, PAD, Bpe, SubwordsSpec
from transduce.training import Training

__all__ = ["LARGEST", "Recipe", "dump", "expanded", "from_values", "load", "read_yaml"]

VARIABLE = re.compile(r"\$\{(\w+)\}")
LARGEST = 100_000  # bytes of a recipe; the parser takes seconds for more, and nobody writes it

JSON_TAGS = ("map", "seq", "str", "int", "float", "bool", "null")


class _Constructor(SafeConstructor):
    """Makes of YAML what JSON has: YAML 1.2 knows no dates, and a setting is no set and no bytes."""

    # None stands for tags of which nothing is known: an error with the line.
    yaml_constructors = {
        tag: SafeConstructor.yaml_constructors[tag]
        for tag in (None, *(f"tag:yaml.org,2002:{tag}" for tag in JSON_TAGS))
    } | {"tag:yaml.org,2002:timestamp": SafeConstructor.construct_yaml_str}


class Recipe(Spec):
    """The sections of a recipe."""

    data: DataSpec
    subwords: SubwordsSpec = Bpe()
    model: ModelSpec
    training: Training = Training()
    decoding: Decoding = Decoding()

    @model_validator(mode="after")
    def _symbols_are_the_subwords(self) -> "Recipe":
        """The subwords have fixed ids for the three symbols; a model of other engines may have others."""
        if self.model.symbols != Symbols(pad=PAD, begin=BEGIN, end=END):
            raise ValueError(f"model.symbols must be pad {PAD}, begin {BEGIN}, end {END}, as the subwords have them")
        return self

    @model_validator(mode="after")
    def _one_table_is_of_one_vocabulary(self) -> "Recipe":
        if not self.subwords.shared and self.model.embeddings == "shared":
            raise ValueError("`subwords.shared: false` makes two vocabularies: set `model.embeddings: separate` too")
        return self

    @model_validator(mode="after")
    def _patience_has_a_corpus(self) -> "Recipe":
        if self.training.patience is not None and self.data.validation is None:
            raise ValueError("`training.patience` counts validations: name a corpus in `data.validation`")
        return self


def load(path: Path, changes: Iterable[str] = ()) -> Recipe:
    """The recipe in `path` with each `KEY=VALUE` of `changes` laid over it.

    Relative paths are relative to the recipe, those of a change to where one stands. A `ValueError` names the file,
    the key and the remedy.
    """
    values = _filled(read_yaml(path), path)
    values["data"] = _located(values.get("data", {}), path.parent)
    return from_values(values, changes, place=str(path))


def from_values(values: Mapping[str, Any], changes: Iterable[str] = (), *, place: str) -> Recipe:
    """The recipe that `values` and each `KEY=VALUE` of `changes` make; `place` is what errors call it."""
    for change in changes:
        values = merged(_without_corpora(values, change), _as_mapping(change))
    return validated(Recipe, expanded(values, place=place), place=place)


def expanded(values: Mapping[str, Any], *, place: str) -> dict[str, Any]:
    """`values` laid over the preset that its `model` names, `base` if none, and that over the defaults."""
    named = {} if values.get("model") is None else values["model"]
    if not isinstance(named, Mapping):
        raise ValueError(f"{place}: `model` is {json.dumps(named)}: write `model: {{preset: NAME}}`, or the whole spec")
    model = dict(named)
    preset = model.pop("preset", "base")
    if not isinstance(preset, str) or preset not in PRESETS:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise ValueError(f"{place}: there is no preset `{preset}`; {hint}presets: {', '.join(PRESETS)}")
    sections = {"subwords": Bpe(), "training": Training(), "decoding": Decoding()}
    defaults = {section: spec.as_dictionary() for section, spec in sections.items()}
    whole: dict[str, Any] = merged(merged(defaults, PRESETS[preset]), {**values, "model": model})
    return whole


def dump(recipe: Recipe) -> str:
    """The recipe with everything resolved, as YAML."""
    # JSON is YAML, and numbers such as 1e-09 survive the journey.
    return json.dumps(recipe.as_dictionary(), indent=2, ensure_ascii=False) + "\n"


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file; a `ValueError` for anything else."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; a recipe is a YAML file")
    if not path.exists():
        raise ValueError(f"there is no recipe {path}")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{path} has more than {LARGEST:,} bytes; a recipe is a page of YAML, and names the corpora")
    values = _from_yaml(content, place=str(path))
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no sections; a recipe begins with `data:`")
    return values


def _from_yaml(content: bytes, *, place: str) -> Any:
    """What YAML 1.2 says, as plain values of its own; a `ValueError` for what is none."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    try:
        text = content.decode("utf-8-sig")
        # Deep brackets take the parser minutes, deep indentation more than Python's stack.
        if max(accumulate((letter in "[{") - (letter in "]}") for letter in text), default=0) > DEEPEST:
            raise RecursionError
        values = yaml.load(text)
    except DuplicateKeyError as error:
        raise ValueError(f"{place}: {error.problem}: keep one of them") from None
    except RecursionError:
        raise ValueError(f"{place} is nested too deep: settings have at most {DEEPEST} levels") from None
    except Exception as error:  # the library lets through whatever its parts raise
        found = f"{(str(error).splitlines() or [''])[0]} {_line_of(error, content)}".rstrip()
        raise ValueError(f"{place} is no YAML: {found}") from None
    check_plain(values, place=place)
    # Through JSON, so that every key is a text, and what an alias repeats is there twice.
    return json.loads(json.dumps(values))


def _line_of(error: Exception, content: bytes) -> str:
    """Where in the file a YAML error stands."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return ""
    lines = content.split(b"\n")[mark.line : mark.line + 1]
    remedy = '; inside of braces put "${NAME}" into quotes' if any(b"${" in line for line in lines) else ""
    return f"(line {mark.line + 1}: {getattr(error, 'problem', '')}{remedy})"


def _filled(value: Any, path: Path) -> Any:
    """`value` with each `${NAME}` replaced by the environment's."""
    if isinstance(value, dict):
        return {key: _filled(inner, path) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, path) for inner in value]
    return VARIABLE.sub(lambda found: _variable(found[1], path), value) if isinstance(value, str) else value


def _variable(name: str, path: Path) -> str:
    if name not in os.environ:
        raise ValueError(f"{path} uses ${{{name}}}, and the environment has no {name}: set it, e.g. `export {name}=…`")
    return os.environ[name]


def _located(data: Any, folder: Path) -> Any:
    """`data` with the paths of its corpora made absolute, from the recipe's folder."""
    if isinstance(data, list):
        return [_located(inner, folder) for inner in data]
    if not isinstance(data, dict):
        return data
    return {
        key: os.path.realpath(folder / inner) if _is_place(key, inner, folder) else _located(inner, folder)
        for key, inner in data.items()
    }


def _is_place(key: str, value: Any, folder: Path) -> bool:
    """Whether a setting of a corpus is a path, from `folder`; a table of the hub may be a folder's."""
    return isinstance(value, str) and (key in PATHS or (key == "hub" and (folder / value).is_dir()))


def wherever(recipe: Any) -> Any:
    """A recipe without the places of what it trains on: whether that is the same is seen from its content."""
    match recipe:
        case {"data": {"train": [*corpora], **data}, **rest}:
            known = [
                {
                    key: value
                    for key, value in corpus.items()
                    if key not in PATHS and not (key == "hub" and is_folder(str(value)))
                }
                if isinstance(corpus, dict)
                else corpus
                for corpus in corpora
            ]
            return {**rest, "data": {**data, "train": known}}
    return recipe


def _without_corpora(values: Mapping[str, Any], change: str) -> Mapping[str, Any]:
    """`values` without the corpora that the key of a `KEY=VALUE` names: forms of a corpus do not mix."""
    section, *keys = change.partition("=")[0].split(".")
    data = values.get("data")
    match keys:
        case ["train" | "validation" | "test" as key] if section == "data" and isinstance(data, Mapping):
            return {**values, "data": {name: value for name, value in data.items() if name != key}}
        case ["test", name] if (
            section == "data" and isinstance(data, Mapping) and isinstance(data.get("test"), Mapping)
        ):
            return {
                **values,
                "data": {**data, "test": {key: value for key, value in data["test"].items() if key != name}},
            }
    return values


def _as_mapping(change: str) -> dict[str, Any]:
    """`a.b=value` as {a: {b: value}}, the value read as YAML."""
    key, equals, text = change.partition("=")
    place = f"--set {change}" if len(change) < LONGEST_SHOWN else f"--set {change[:LONGEST_SHOWN]}…"
    if not equals or not all(key.split(".")):
        raise ValueError(f"{place}: write KEY=VALUE, such as --set training.steps=2000")
    if not text.strip():
        raise ValueError(f"{place}: there is no value; `null` is what switches a setting off")
    value = _from_yaml(os.fsencode(text), place=place)
    for part in reversed(key.split(".")):
        value = {part: value}
    mapping: dict[str, Any] = value
    check_plain(mapping, place=place)
    return {"data": _located(mapping["data"], Path())} if "data" in mapping else mapping
