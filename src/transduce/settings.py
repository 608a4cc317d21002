"""Settings: the base of all settings records, and how settings are merged and validated.

Presets, recipes, `--set` and `config.json` are dictionaries until they are merged. Only the merged whole is validated,
so a preset or an override may consist of a few keys, and an error can say where each key belongs.
"""

import contextlib
import difflib
import json
import typing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticKnownError, core_schema

MAX_SHOWN_FAULTS = 20
MAX_SHOWN_LENGTH = 200  # characters of a value in a message

# Limits of a settings file, whoever wrote it.
MAX_INTEGER = 2**53 - 1  # all JSON readers represent integers exactly up to this value
MAX_DEPTH = 50  # levels of mappings and lists
MAX_VALUES = 100_000  # a value that YAML aliases repeat counts every time

KeyPath = tuple[str, ...]

AnySpec = TypeVar("AnySpec", bound="Spec")


class Spec(BaseModel):
    """Base of every settings record: frozen and strict; unknown keys, infinity and NaN are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    def as_dictionary(self) -> dict[str, Any]:
        """The whole record, defaults included, as JSON values."""
        dictionary: dict[str, Any] = self.model_dump(mode="json")
        return dictionary

    def replaced(self, **changes: Any) -> Self:
        """Copies the record with different values for some keys; raises ValueError if they do not fit."""
        return type(self)(**{**dict(self), **changes})


def from_satellite(path: str) -> Any:
    """Imports the object that `module:name` names, from a module that no module of the core imports.

    Raises ValueError if this installation lacks the module.
    """
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise ValueError(f"this needs `{module}`, and there is no module `{error.name}` here") from None


PLAIN_WORDS = {
    "value error, ": "",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
    "input should be a valid integer": "write a whole number",
    "input should be a valid number": "write a number",
    "input should be a valid string": "write a string",
    "input should be a valid boolean": "write true or false",
    "input should be greater than or equal to": "write at least",
    "input should be less than or equal to": "write at most",
    "input should be greater than": "write more than",
    "input should be less than": "write less than",
    "input should be an object": "write keys and values, such as {kind: NAME}",
    "is not readable": "cannot be read: permission denied",
}
"""Replacements for pydantic's wording in messages, with a lower-case first letter."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The question "; did you mean `X`?" for the most similar of `names`; empty if none is similar.

    A name is similar if `name` contains it as a word: `base` in `transformer_base`.
    """
    names = list(names)
    nearest = [word for word in name.replace("-", "_").split("_") if word in names]
    nearest = nearest or difflib.get_close_matches(name, names, n=1)
    return f"; did you mean `{nearest[0]}`?" if nearest and nearest[0] != name else ""


def type_in_words(value: object) -> str:
    """Names the type of a value, for example "a list", "an int" or "None"."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


class ByKind:
    """The annotation of a field that holds one of several specs, chosen by `kind`.

    It is a closed table from kinds to classes, like a discriminated union in pydantic. Instead of a class, the table
    may contain the path of a satellite's class, for example `transduce.paper.models.bytenet:ByteNet`. The satellite is
    imported when a recipe or a `config.json` names that kind, or to word an error.
    """

    def __init__(self, classes: Mapping[str, type[Spec] | str]) -> None:
        self.table = classes

    def class_of(self, kind: str) -> type[Spec]:
        """The class of a kind; raises ValueError if it is in a satellite that is not installed."""
        entry = self.table[kind]
        found: type[Spec] = from_satellite(entry) if isinstance(entry, str) else entry
        return found

    def core_classes(self) -> list[type[Spec]]:
        """The classes that are not in a satellite."""
        return [entry for entry in self.table.values() if not isinstance(entry, str)]

    def all_classes(self) -> Iterator[type[Spec]]:
        """Yields the classes of all kinds, except classes of satellites that are not installed."""
        for kind in self.table:
            with contextlib.suppress(ValueError):
                yield self.class_of(kind)

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: object) -> Spec:
        """Converts a record, or the values of a record, to a record of its kind; errors are worded like pydantic's."""
        if not isinstance(value, Mapping | Spec):
            raise PydanticKnownError("dict_type")
        kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
        if kind is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'kind'"})
        if kind not in self.table:
            kinds = ", ".join(map(repr, self.table))
            details = {"discriminator": "'kind'", "tag": str(kind), "expected_tags": kinds}
            raise PydanticKnownError("union_tag_invalid", details)
        spec = self.class_of(kind)
        # As JSON, where a list may stand for a tuple: pydantic passes what it has read from JSON as Python values.
        return spec.model_validate(value) if isinstance(value, Spec) else spec.model_validate_json(json.dumps(value))


def merged(base: Any, change: Any) -> Any:
    """Merges the values of `change` into `base`, key by key.

    A mapping with a different `kind` replaces the mapping in `base`, because the keys of one variant mean nothing to
    another.
    """
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    if "kind" in change and change["kind"] != base.get("kind"):
        return dict(change)
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the path of each key, in the notation of `--set`, and its value."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def validated(spec: type[AnySpec], values: Mapping[str, Any], *, place: str) -> AnySpec:
    """Converts `values` to a `spec`.

    Raises ValueError with `place`, for example a file name, and for each fault the key's path and the allowed values.
    """
    check_plain(values, place=place)
    try:
        return spec.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        faults = [_fault(spec, values, details) for details in errors[:MAX_SHOWN_FAULTS]]
        if len(errors) > MAX_SHOWN_FAULTS:
            faults.append(f"… and {len(errors) - MAX_SHOWN_FAULTS:,} more")
        raise ValueError(f"{place}: " + "\n".join(dict.fromkeys(faults))) from None


def parse_json(content: bytes, *, place: str) -> Any:
    """Parses the content of a JSON file; if it is not JSON, raises ValueError, whose message begins with `place`."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is not JSON: {error}") from None


def check_version(values: Any, version: int, *, place: str) -> None:
    """Raises ValueError, whose message begins with `place`, if a file has a version other than `version`."""
    written = values.get("version") if isinstance(values, Mapping) else None
    if written is not None and written != version:
        raise ValueError(f"{place} has version {json.dumps(written)}; this program reads version {version}")


def _fault(spec: type[Spec], values: Any, details: Any) -> str:
    """Words one of pydantic's errors as a sentence."""
    path = _path(values, details["loc"])
    if details["type"] == "missing":
        return f"`{'.'.join([*path, str(details['loc'][-1])])}` is missing"
    if details["type"] == "extra_forbidden":
        return _unknown_key(spec, values, path)
    if details["type"] == "value_error":
        return f"`{'.'.join(path)}`: {details['ctx']['error']}" if path else str(details["ctx"]["error"])
    subject = f"`{'.'.join(path)}` is " if path else "this is "
    value = details["input"]
    if details["type"] == "union_tag_invalid":
        kinds = details["ctx"]["expected_tags"].replace("'", "").split(", ")
        kind = details["ctx"]["tag"]
        key = ".".join([*path, "kind"])
        return f"`{key}` is {_shortened(kind)}{did_you_mean(kind, kinds) or ';'} kinds: {', '.join(kinds)}"
    message = details["msg"][0].lower() + details["msg"][1:]
    for words, plain in PLAIN_WORDS.items():
        message = message.replace(words, plain)
    if isinstance(value, float) and value.is_integer() and message == "write a whole number":
        message = f"write {int(value)}"
    if details["type"] == "literal_error" and isinstance(value, str) and value in OTHER_VALUES:
        message += f"; did you mean '{OTHER_VALUES[value]}'?"
    kind = ".".join([*path, "kind"])
    if isinstance(value, str) and kind in key_paths(spec):
        message = f"write `{kind}={value}`"
    return f"{subject}{_shortened(value)}: {message}"


def _shortened(value: Any) -> str:
    """Formats a value as JSON, cut after MAX_SHOWN_LENGTH characters."""
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


def _path(values: Any, location: tuple[str | int, ...]) -> list[str]:
    """The steps of pydantic's `location` that lead through `values`, without the variants of unions."""
    path = []
    for step in location:
        keys = range(len(values)) if isinstance(values, list) else values if isinstance(values, Mapping) else ()
        if step in keys:
            path.append(str(step))
            values = values[step]
    return path


def _unknown_key(spec: type[Spec], values: Any, path: list[str]) -> str:
    """A sentence that names the unknown key and the nearest key, or the kinds or sections that have the key."""
    name, keys = path[-1], list(_keys(spec))
    # Indices of lists and names that the user chooses are not sections.
    section = ".".join(step for step in path[:-1] if step in {key.name for key in keys})
    sections = sorted({key.section for key in keys if key.name == name})
    siblings = [key for key in keys if key.section == section]
    for step in path[:-1]:
        values = values[int(step) if isinstance(values, list) else step]
    kind = values.get("kind")
    names = [key.name for key in siblings if key.kind == kind] or [key.name for key in siblings]
    sentence = f"unknown key `{'.'.join(path)}`"
    if name in OTHER_NAMES:
        return f"{sentence}; it is `{OTHER_NAMES[name]}` here"
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    meant = f"; did you mean `{nearest[0]}`?" if nearest and nearest[0] != name else ";"
    if section in sections:
        kinds = " or ".join(sorted(f"`{key.kind}`" for key in siblings if key.name == name and key.kind))
        of_kind = f"kind {kinds}" if kinds else f"another variant of `{section}`"
        return f"{sentence}{meant} `{name}` belongs to {of_kind}"
    if nearest:
        return f"{sentence}{meant}"
    if sections:
        least = min(place.count(".") for place in sections)
        places = [f"{place}.{name}".lstrip(".") for place in sections if place.count(".") == least]
        return f"{sentence}; did you mean {' or '.join(f'`{place}`' for place in places)}?"
    if nearest := difflib.get_close_matches(name, {key.name for key in keys}, n=1, cutoff=0.7):
        return f"{sentence}; the nearest key elsewhere is `{nearest[0]}`"
    return f"{sentence}; keys here: {', '.join(dict.fromkeys(names))}"


OTHER_VALUES = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32"}
"""Maps values in other toolkits to values in a recipe."""

OTHER_NAMES = {
    **dict.fromkeys(("lr", "learning_rate", "max_lr"), "training.schedule.peak"),
    **dict.fromkeys(("batch_size", "max_tokens", "tokens_per_batch"), "training.batch_tokens"),
    **dict.fromkeys(("max_steps", "max_update", "train_steps", "updates"), "training.steps"),
    **dict.fromkeys(("max_epochs", "num_epochs", "max_epoch"), "training.epochs"),
    **dict.fromkeys(("early_stopping", "early_stop"), "training.patience"),
    **dict.fromkeys(("warmup_steps", "warmup_updates"), "training.schedule.warmup"),
    **dict.fromkeys(("vocab_size", "vocabulary_size"), "subwords.size"),
    **dict.fromkeys(("hidden_size", "embedding_size", "embed_dim"), "model.d_model"),
    **dict.fromkeys(("beam_size", "num_beams"), "decoding.beam"),
    "optimizer": "training.optimiser",
}
"""Maps names in other toolkits to keys of a recipe."""


def key_paths(spec: type[Spec]) -> list[str]:
    """Path of every key of `spec` and of the specs inside it, for example `model.mixer.heads`, each once."""
    return list(dict.fromkeys(f"{key.section}.{key.name}".lstrip(".") for key in _keys(spec)))


class _Key(NamedTuple):
    """A key of a settings file: its section, its name, and the kind of section that has it, or None."""

    section: str
    name: str
    kind: str | None


def _keys(spec: type[BaseModel], section: str = "") -> Iterator[_Key]:
    """Yields every key of `spec` and of the specs inside it."""
    kind = spec.model_fields["kind"].default if "kind" in spec.model_fields else None
    for name, field in spec.model_fields.items():
        yield _Key(section, name, kind)
        for member in specs_of(field):
            yield from _keys(member, f"{section}.{name}".lstrip("."))


def specs_of(field: FieldInfo) -> Iterator[type[Spec]]:
    """Yields the spec types that a field may hold."""
    by_kind = [mark for mark in field.metadata if isinstance(mark, ByKind)]
    yield from by_kind[0].all_classes() if by_kind else _specs_in(field.annotation)


def _specs_in(annotation: Any) -> Iterator[type[Spec]]:
    """Yields the spec types of an annotation, even inside unions, optionals, tuples and dictionaries."""
    arguments = typing.get_args(annotation)
    if not arguments and isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for argument in arguments:
        yield from _specs_in(argument)


def check_plain(values: Any, *, place: str) -> None:
    """Raises ValueError with `place` and the path of the key if `values` are not JSON or exceed the limits."""
    pending: list[tuple[KeyPath, Any]] = [((), values)]
    count = 0
    while pending:
        path, value = pending.pop()
        count += 1
        fault = f"unfolds to more than {MAX_VALUES:,} values" if count > MAX_VALUES else _value_fault(value, len(path))
        if fault:
            shown = f"{'.'.join(path[:3])}…" if len(path) > MAX_DEPTH else ".".join(path)
            raise ValueError(f"{place}: {f'`{shown}`' if path else 'the top level'} {fault}")
        pending += [((*path, step), inner) for step, inner in _items(value)]


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the values of a mapping or list, each with its key or index."""
    if isinstance(value, Mapping):
        yield from ((_key_name(key), inner) for key, inner in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(index), inner) for index, inner in enumerate(value))


def _value_fault(value: Any, depth: int) -> str | None:
    """The fault of a value, not of the values inside it; None if there is none."""
    if depth > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, Mapping):
        return _keys_fault(value)
    if isinstance(value, str):
        return _string_fault(value)
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return f"is beyond {MAX_INTEGER:,}, the largest integer"
    if value is None or isinstance(value, int | float | list | tuple):
        return None
    return f"is {type_in_words(value)}; write a string, a number, a list or a mapping"


def _keys_fault(values: Mapping[Any, Any]) -> str | None:
    """The fault of the keys of a mapping. As keys, JSON turns numbers, booleans and null into strings."""
    for key in values:
        if not (key is None or isinstance(key, str | int | float)):
            return f"has the key {key!r}; a key is a string"
    names = [_key_name(key) for key in values]
    name, count = Counter(names).most_common(1)[0] if names else ("", 1)
    return f"has the key `{name}` twice: keep one of them" if count > 1 else _string_fault("".join(names))


def _string_fault(string: str) -> str | None:
    """The fault of a string: NUL, which no path can have, or a surrogate, which UTF-8 cannot encode."""
    if "\0" in string:
        return "holds a NUL character"
    return "holds a character that UTF-8 cannot encode" if any("\ud800" <= c <= "\udfff" for c in string) else None


def _key_name(key: Any) -> str:
    """A key as JSON writes it."""
    return json.dumps(key) if key is None or isinstance(key, int | float) else str(key)
