"""Generates the page docs/recipe.md from the settings classes; `python -m transduce.pages.recipe_page` prints it."""

import inspect
import json
import types
import typing
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Literal, Union

import annotated_types
from pydantic.fields import FieldInfo

from transduce.corpus.corpus_kinds import (
    Embedded,
    EmbeddedTrees,
    Files,
    Hub,
    ParallelCorpus,
    TaggedCorpus,
    Tmx,
    Trees,
    Tsv,
)
from transduce.model.attention import AttentionSpec
from transduce.model.translation_model import BaseModelSpec
from transduce.recipe.presets import BASE, PRESETS, Values
from transduce.recipe.recipe import Recipe
from transduce.settings import ByKind, Spec, flat

SHARED: dict[type[Any], str] = {
    BaseModelSpec: "Keys of every model",
    AttentionSpec: "Keys of attention",
    TaggedCorpus: "Key of every corpus",
    ParallelCorpus: "Keys of every corpus of translations",
}
"""Settings classes whose keys other settings classes inherit, and the headings of their tables."""

CORPORA = (Files, Tsv, Tmx, Hub, Embedded, Trees, EmbeddedTrees)

TEMPLATE = files(__package__) / "recipe_page.md"  # the page, with placeholders for the tables


def reference_page() -> str:
    """Returns the page as Markdown, with a table of keys for each settings class and a table of presets."""
    sections = ["## Sections\n", keys_table(Recipe)]
    documented: set[type[Spec]] = {Recipe}
    for name, field in Recipe.model_fields.items():
        sections.append(f"## `{name}`\n")
        for spec in dict.fromkeys(_specs_of(field)):
            if spec not in documented:
                documented.add(spec)
                is_section = spec is field.annotation and not _by_kind(field)
                sections += [keys_table(spec)] if is_section else [f"### {title(spec)}\n", keys_table(spec)]
    page = TEMPLATE.read_text("utf-8")
    return page.replace("KEYS\n", "\n".join(sections) + "\n").replace("PRESETS\n", presets_table(PRESETS))


def reference_specs() -> list[type[Spec]]:
    """Returns every settings class that a recipe can contain."""
    return list(dict.fromkeys(specs_below(Recipe)))


def specs_below(annotation: Any) -> Iterator[type[Spec]]:
    """Yields the settings classes in an annotation, each after its base class and before the classes of its keys."""
    for argument in typing.get_args(annotation):
        yield from specs_below(argument)
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        yield from (base for base in reversed(annotation.__mro__) if base in SHARED and base is not annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from _specs_of(field)


def _specs_of(field: FieldInfo) -> Iterator[type[Spec]]:
    """Yields the settings classes of a field; of a `ByKind` table, yields only the classes that belong to the core."""
    for spec in _by_kind(field):
        yield from specs_below(spec)
    if not _by_kind(field):
        yield from specs_below(field.annotation)


def _by_kind(field: FieldInfo) -> list[type[Spec]]:
    """Returns the classes in a field's `ByKind` table that belong to the core; without such a table, returns []."""
    return [spec for mark in field.metadata if isinstance(mark, ByKind) for spec in mark.core_classes()]


def title(spec: type[Spec]) -> str:
    """Returns the heading of a settings class: its kind, the first key of a corpus, or the name of the class."""
    if spec in SHARED:
        return SHARED[spec]
    if spec in CORPORA:
        return f"Corpus with `{next(iter(inspect.get_annotations(spec)))}`"
    kind = spec.model_fields.get("kind")
    return f"`kind: {kind.default}`" if kind else f"`{spec.__name__}`"


def keys_table(spec: type[Spec]) -> str:
    """Returns the summary and the table of keys of a settings class, without `kind` and inherited keys."""
    shared = {key for base in spec.__bases__ if base in SHARED for key in base.model_fields}
    inherited = shared - inspect.get_annotations(spec).keys()
    summary = (inspect.getdoc(spec) or "").partition("\n\n")[0].replace("\n", " ")
    rows = [
        f"|`{key}`|{_type_of(field.annotation, field.metadata)}|{_default(field)}|{field.description}|"
        for key, field in spec.model_fields.items()
        if key != "kind" and key not in inherited
    ]
    table = ["", "|key|type|default|meaning|", "|---|---|---|---|", *rows] if rows else []
    return "\n".join([summary, *table, ""])


def _type_of(annotation: Any, metadata: typing.Sequence[Any] = ()) -> str:
    """Describes the type of a key in words, with its bounds."""
    for mark in metadata:
        if isinstance(mark, ByKind):
            kinds = " or ".join(_type_of(spec) for spec in mark.core_classes())
            return f"{kinds} or [those of the paper](paper-models.md)"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_of(arguments[0], [bound for field in arguments[1:] for bound in getattr(field, "metadata", [])])
    if origin in (types.UnionType, Union):
        members = (_type_of(member, metadata if member in (int, float) else ()) for member in arguments)
        return " or ".join(dict.fromkeys(members))
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is tuple:
        return f"[{', '.join('…' if member is ... else _type_of(member) for member in arguments)}]"
    if origin is dict:
        return f"mapping of names to {_type_of(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        if annotation in (field.annotation for field in Recipe.model_fields.values()):
            return "section"
        return "corpus" if annotation in CORPORA else title(annotation).replace("kind: ", "")
    names = {bool: "true or false", int: "integer", float: "number", str: "string", type(None): "null"}
    return f"{names[annotation]} {', '.join(filter(None, map(_bound, metadata)))}".strip()


def _number(value: Any) -> str:
    return f"{int(value) if value == int(value) else value:,}"


def _bound(bound: Any) -> str:
    """Formats a bound of a number as a comparison; returns an empty string for other metadata."""
    match bound:
        case annotated_types.Ge(ge=limit):
            return f"≥ {_number(limit)}"
        case annotated_types.Gt(gt=limit):
            return f"> {_number(limit)}"
        case annotated_types.Le(le=limit):
            return f"≤ {_number(limit)}"
        case annotated_types.Lt(lt=limit):
            return f"< {_number(limit)}"
        case annotated_types.MultipleOf(multiple_of=factor):
            return f"multiple of {factor}"
    return ""


def _default(field: Any) -> str:
    """Formats the default of a key; if the default is a settings object, only its kind is shown."""
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, Spec):
        kind = getattr(default, "kind", None)
        return f"`{{kind: {kind}}}`" if kind else "`{}`"
    return f"`{json.dumps(default)}`".replace('"', "")


def presets_table(presets: Mapping[str, Values]) -> str:
    """Returns a table of presets, with all settings of `base` and, for the others, the settings that differ from it.

    A preset whose model is of another kind is shown with all settings of the model.
    """
    base = dict(flat(BASE))
    rows = ["|preset|settings|", "|---|---|"]
    for name, preset in presets.items():
        is_whole = name == "base" or preset["model"]["kind"] != "transformer"
        changes = {
            key: value
            for key, value in flat(preset)
            if (is_whole and key.startswith("model.")) or name == "base" or base.get(key, "") != value
        }
        rows.append(f"|`{name}`|{_settings(changes)}|")
    return "\n".join([*rows, ""])


def _settings(values: Mapping[str, Any]) -> str:
    """Formats keys and values; a value that `mixer` and `cross` have in common is written only once."""
    merged: dict[str, Any] = {}
    for key, value in values.items():
        twin = key.replace("model.mixer.", "model.cross.")
        if key.startswith("model.mixer.") and values.get(twin, "") == value:
            merged[key.replace("mixer", "{mixer,cross}")] = value
        elif not (key.startswith("model.cross.") and key.replace("cross", "{mixer,cross}") in merged):
            merged[key] = value
    return " ".join(f"`{key}={json.dumps(value)}`".replace('"', "") for key, value in merged.items())


if __name__ == "__main__":
    print(reference_page(), end="")
