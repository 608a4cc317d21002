"""docs/recipe.md says of every key what the code says: default, choices, whether it may be null; of presets too."""

import importlib
import json
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union

import annotated_types
import pytest
from pydantic_core import PydanticUndefined
from ruamel.yaml import YAML

from transduce.recipe import Recipe, expanded
from transduce.recipe.presets import BASE, PRESETS, SYSTEMS
from transduce.settings import Spec, merged

PAGE = (Path(__file__).parents[2] / "docs" / "recipe.md").read_text("utf-8")
TABLE = re.compile(r"Settings: `src/([\w/]+)\.py::(\w+)`\n\n\|[^\n]*\n\|[-|]*\|\n((?:\|[^\n]*\n)+)")
COLUMNS = {
    "layers": ["model.encoder_layers", "model.decoder_layers"],
    "d_model": ["model.d_model"],
    "d_ff": ["model.feed_forward.d_ff"],
    "heads": ["model.mixer.heads", "model.cross.heads"],
    "d_k": ["model.mixer.d_k", "model.cross.d_k"],
    "d_v": ["model.mixer.d_v", "model.cross.d_v"],
    "dropout": ["model.dropout"],
    "smoothing": ["training.label_smoothing"],
    "steps": ["training.steps"],
    "average": ["training.average"],
}


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def documented() -> dict[type[Spec], dict[str, list[str]]]:
    """The tables of the page: settings class → key → type, default, meaning."""
    found = {}
    for module, name, rows in TABLE.findall(PAGE):
        spec = getattr(importlib.import_module(module.replace("/", ".")), name)
        found[spec] = {cell[0].strip("`"): cell[1:] for cell in map(cells, rows.splitlines())}
    return found


def specs_of(annotation: Any) -> Iterator[type[Spec]]:
    """Every settings class below an annotation, itself included."""
    for argument in typing.get_args(annotation):
        yield from specs_of(argument)
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
        for field in annotation.model_fields.values():
            yield from specs_of(field.annotation)


def yaml(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def shown_default(field: Any) -> Any:
    """A field's default as the page shows it: of a part its kind alone, for the rest is in the part's own table."""
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Spec):
        return {"kind": default.kind} if hasattr(default, "kind") else {}
    return json.loads(json.dumps(default))


SPECS = sorted(set(specs_of(Recipe)), key=lambda spec: spec.__name__)


def test_every_settings_class_of_a_recipe_has_its_table_and_no_other() -> None:
    assert set(documented()) == set(SPECS)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_the_table_has_the_keys_of_the_class_in_their_order(spec: type[Spec]) -> None:
    assert list(documented()[spec]) == list(spec.model_fields)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_the_table_has_the_defaults_of_the_class(spec: type[Spec]) -> None:
    for key, field in spec.model_fields.items():
        default = documented()[spec][key][1]
        if (spec, key) == (Recipe, "model"):
            assert (
                expanded({}, place="here")["model"]
                == expanded({"model": {"preset": default.strip("`")}}, place="")[key]
            )
        elif field.is_required():
            assert default == "required", key
        else:
            assert field.default is not PydanticUndefined or field.default_factory is not None
            assert yaml(default.strip("`")) == shown_default(field), key


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_the_table_has_the_choices_of_the_class_and_says_what_may_be_null(spec: type[Spec]) -> None:
    for key, field in spec.model_fields.items():
        kind = documented()[spec][key][0]
        assert ("null" in kind) == (type(None) in parts_of(field.annotation)), key
        choices = [choice for part in parts_of(field.annotation) for choice in choices_of(part)]
        if choices:
            assert re.findall(r"`([^`]+)`", kind) == choices, key
        assert documented()[spec][key][2], f"{key} has no meaning"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.__name__)
def test_the_table_has_the_bounds_of_the_class(spec: type[Spec]) -> None:
    for key, field in spec.model_fields.items():
        kind = documented()[spec][key][0]
        for bound in field.metadata:
            assert any(words in kind for words in worded(bound)), (key, bound, kind)


def worded(bound: Any) -> list[str]:
    """How the page may say a bound; what cannot be said of one bound alone may be anything."""
    match bound:
        case annotated_types.MultipleOf():
            return ["even"]
        case annotated_types.Ge(ge=least):
            return [f"at least {least:g}", f"{least:,} to", "even", "odd"]
        case annotated_types.Gt(gt=below):
            return [f"above {below:g}"]
        case annotated_types.Le(le=most):
            return [f"to {most:,}", f"at most {most:,}"]
        case annotated_types.Lt(lt=above):
            return [f"below {above:g}"]
    return [""]


def parts_of(annotation: Any) -> tuple[Any, ...]:
    union = typing.get_origin(annotation) in (types.UnionType, Union)
    return typing.get_args(annotation) if union else (annotation,)


def choices_of(annotation: Any) -> tuple[str, ...]:
    return typing.get_args(annotation) if typing.get_origin(annotation) is Literal else ()


def preset_rows() -> dict[str, dict[str, str]]:
    """The table of presets: name → column → cell."""
    lines = PAGE[PAGE.index("| preset |") :].split("\n\n")[0].splitlines()
    header, _, *rows = map(cells, lines)
    return {row[0].strip("`"): dict(zip(header[1:], row[1:], strict=True)) for row in rows}


def system_rows() -> dict[str, dict[str, str]]:
    """The table of systems: name → the model as YAML under "", or the key of `base` that is another."""
    lines = PAGE[PAGE.index("| system |") :].split("\n\n")[0].splitlines()[2:]
    found = {}
    for line in lines:
        name, _, model = cells(line)
        text = re.findall(r"`([^`]+)`", model)[-1]
        found[name.strip("`")] = {"" if text.startswith("{") else text.partition(":")[0]: text}
    return found


def with_value(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    laid: dict[str, Any] = merged(values, value)
    return laid


def test_the_table_of_presets_has_every_preset_in_order() -> None:
    assert [*preset_rows(), *system_rows()] == list(PRESETS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_what_its_row_says(name: str) -> None:
    said = {key: yaml(f"{{{text}}}" if key else text) for key, text in system_rows()[name].items()}
    expected = merged(BASE["model"], said["feed_forward"]) if "feed_forward" in said else said[""]
    assert PRESETS[name] == {"model": expected, "training": BASE["training"]}


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in SYSTEMS])
def test_a_preset_is_base_with_what_its_row_says(name: str) -> None:
    values: dict[str, Any] = PRESETS["base"]
    row = preset_rows()[name]
    for column, keys in COLUMNS.items():
        for key in keys if row[column] else ():
            values = with_value(values, key, yaml(row[column]))
    for change in re.findall(r"`([^`]+)`", row["besides"]):
        key, _, text = change.partition("=")
        values = with_value(values, key, yaml(text))
    assert values == PRESETS[name]


def test_the_row_of_base_is_whole() -> None:
    assert all(preset_rows()["base"][column] for column in COLUMNS)
