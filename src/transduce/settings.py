"""Provides the base class of all settings records, and functions that merge and validate settings.

The values from presets, recipes, `--set` and `config.json` are plain dictionaries until they have been merged. Only the
merged result is validated, so a preset or an override may contain just a few keys, and an error message can say where
each key belongs.
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
MAX_SHOWN_LENGTH = 200  # in characters; longer values are truncated in error messages

# Limits on the content of every settings file.
MAX_INTEGER = 2**53 - 1  # the largest integer that every JSON reader represents exactly
MAX_DEPTH = 50  # levels of nested mappings and lists
MAX_VALUES = 100_000  # a value that YAML aliases repeat is counted each time

KeyPath = tuple[str, ...]

AnySpec = TypeVar("AnySpec", bound="Spec")


class Spec(BaseModel):
    """Base class of all settings records.

    Records are immutable and are validated strictly: unknown keys, infinity and NaN are errors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    def as_dictionary(self) -> dict[str, Any]:
        """Returns the whole record, including default values, as a dictionary of JSON values."""
        dictionary: dict[str, Any] = self.model_dump(mode="json")
        return dictionary

    def replaced(self, **changes: Any) -> Self:
        """Returns a copy of the record with new values for some keys; raises ValueError if the result is invalid."""
        return type(self)(**{**dict(self), **changes})


def from_satellite(path: str) -> Any:
    """Imports an object from a satellite, which is a module that the core does not import directly.

    `path` has the form `module:name`. Raises ValueError if the module, or another module that it imports, is not
    installed.
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
    "is not one of 'ctranslate2'.": "is not one of 'ctranslate2'; without --engine, transduce itself translates.",
    "is not readable": "cannot be read: permission denied; ask its owner, or change it with `chmod +r`",
}
"""Maps phrases in pydantic's error messages to plainer wording.

The phrases are replaced after the first letter of a message has been lowercased.
"""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns the hint "; did you mean `X`?" with the closest match in `names`, or an empty string if there is none.

    A name that is a word of `name` takes precedence over names with a similar spelling. For `transformer_base`, for
    example, the hint suggests `base`.
    """
    names = list(names)
    nearest = [word for word in name.replace("-", "_").split("_") if word in names]
    nearest = nearest or difflib.get_close_matches(name, names, n=1)
    return f"; did you mean `{nearest[0]}`?" if nearest and nearest[0] != name else ""


def type_in_words(value: object) -> str:
    """Returns the name of a value's type with an article, for example "a list" or "an int", or "None" for None."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


class ByKind:
    """Annotates a field whose value is one of several specs, selected by the key `kind`.

    It works like a discriminated union in pydantic: `classes` maps every kind to its class. If the class is in a
    satellite, `classes` contains its path instead, for example `transduce.paper.models.bytenet:ByteNet`. The satellite
    is then imported only when a recipe or a `config.json` names that kind, or when an error message needs its keys.
    """

    def __init__(self, classes: Mapping[str, type[Spec] | str]) -> None:
        self.table = classes

    def class_of(self, kind: str) -> type[Spec]:
        """Returns the class of a kind; raises ValueError if the class is in a satellite that is not installed."""
        entry = self.table[kind]
        found: type[Spec] = from_satellite(entry) if isinstance(entry, str) else entry
        return found

    def core_classes(self) -> list[type[Spec]]:
        """Returns the classes that belong to the core, leaving out those in satellites."""
        return [entry for entry in self.table.values() if not isinstance(entry, str)]

    def all_classes(self) -> Iterator[type[Spec]]:
        """Yields the classes of all kinds, skipping those in satellites that are not installed."""
        for kind in self.table:
            with contextlib.suppress(ValueError):
                yield self.class_of(kind)

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated)

    def _validated(self, value: object) -> Spec:
        """Validates a record, or a mapping with its values, and returns a record of the class for its kind.

        Raises the same errors as a discriminated union in pydantic.
        """
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
        # Pydantic has already parsed the JSON. Because strict validation of Python values does not accept a list for a
        # tuple, the values are converted to JSON and validated in that form.
        return spec.model_validate(value) if isinstance(value, Spec) else spec.model_validate_json(json.dumps(value))


def merged(base: Any, change: Any) -> Any:
    """Merges `change` into `base` recursively and returns the result.

    A mapping with a different `kind` replaces the whole mapping in `base`, because the keys of one kind are unknown to
    another.
    """
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    if "kind" in change and change["kind"] != base.get("kind"):
        return dict(change)
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields each value together with the dotted path of its key, which is the path that `--set` accepts."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def validated(spec: type[AnySpec], values: Mapping[str, Any], *, place: str) -> AnySpec:
    """Validates `values` and returns them as an instance of `spec`.

    Raises ValueError if the values are invalid. The message begins with `place`, for example a file name, and states
    the path of each faulty key and the values that are allowed.
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
    """Parses the content of a JSON file.

    Raises ValueError if the content is not valid JSON; the message begins with `place`.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is not JSON: {error}") from None


def check_version(values: Any, version: int, *, place: str) -> None:
    """Raises ValueError if `values` contain a version number other than `version`.

    Values without a version number are accepted. The message begins with `place`.
    """
    written = values.get("version") if isinstance(values, Mapping) else None
    if written is not None and written != version:
        raise ValueError(f"{place} has version {json.dumps(written)}; this program reads version {version}")


def _fault(spec: type[Spec], values: Any, details: Any) -> str:
    """Returns a sentence that explains one of pydantic's errors to the user."""
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
    """Formats a value as JSON and truncates it after MAX_SHOWN_LENGTH characters."""
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}…"


def _path(values: Any, location: tuple[str | int, ...]) -> list[str]:
    """Returns the path in `values` that pydantic's `location` denotes, leaving out the names of union members."""
    path = []
    for step in location:
        keys = range(len(values)) if isinstance(values, list) else values if isinstance(values, Mapping) else ()
        if step in keys:
            path.append(str(step))
            values = values[step]
    return path


def _unknown_key(spec: type[Spec], values: Any, path: list[str]) -> str:
    """Returns a message that names an unknown key and suggests what the user may have meant.

    It suggests the nearest key, or the kinds or sections that have a key of this name. If there are none, it lists the
    keys that are allowed at this place.
    """
    name, keys = path[-1], list(_keys(spec))
    # List indices, and names that the user chooses, are not sections.
    section = ".".join(step for step in path[:-1] if step in {key.name for key in keys})
    sections = sorted({key.section for key in keys if key.name == name})
    siblings = [key for key in keys if key.section == section]
    for step in path[:-1]:
        values = values[int(step) if isinstance(values, list) else step]
    kind = values.get("kind")
    names = [key.name for key in siblings if key.kind == kind] or [key.name for key in siblings]
    sentence = f"unknown key `{'.'.join(path)}`"
    if name in OTHER_NAMES:
        unit = ", which counts tokens, not sentences" if name == "batch_size" else ""
        return f"{sentence}; it is `{OTHER_NAMES[name]}` here{unit}"
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    meant = f"; did you mean `{'.'.join([*path[:-1], nearest[0]])}`?" if nearest and nearest[0] != name else ";"
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
"""Maps values that other toolkits use to the equivalent values in a recipe."""

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
"""Maps option names that other toolkits use to the equivalent keys in a recipe."""


def key_paths(spec: type[Spec]) -> list[str]:
    """Returns the unique dotted paths of all keys in `spec` and its nested specs, for example `model.mixer.heads`."""
    return list(dict.fromkeys(f"{key.section}.{key.name}".lstrip(".") for key in _keys(spec)))


class _Key(NamedTuple):
    """A key of a settings file.

    If the section has several kinds, `kind` is the one that has the key; otherwise it is None.
    """

    section: str
    name: str
    kind: str | None


def _keys(spec: type[BaseModel], section: str = "") -> Iterator[_Key]:
    """Yields every key of `spec` and its nested specs; `section` is the dotted path of `spec` itself."""
    kind = spec.model_fields["kind"].default if "kind" in spec.model_fields else None
    for name, field in spec.model_fields.items():
        yield _Key(section, name, kind)
        for member in specs_of(field):
            yield from _keys(member, f"{section}.{name}".lstrip("."))


def specs_of(field: FieldInfo) -> Iterator[type[Spec]]:
    """Yields the spec classes whose instances a field accepts."""
    by_kind = [mark for mark in field.metadata if isinstance(mark, ByKind)]
    yield from by_kind[0].all_classes() if by_kind else _specs_in(field.annotation)


def _specs_in(annotation: Any) -> Iterator[type[Spec]]:
    """Yields the spec classes in an annotation, including those inside unions, optionals, tuples and dictionaries."""
    arguments = typing.get_args(annotation)
    if not arguments and isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for argument in arguments:
        yield from _specs_in(argument)


def check_plain(values: Any, *, place: str) -> None:
    """Raises ValueError if `values` cannot be represented as JSON, or if they exceed the limits of a settings file.

    The message contains `place` and the path of the key.
    """
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
    """Yields the items of a mapping or list, each with its key or index as a string."""
    if isinstance(value, Mapping):
        yield from ((_key_name(key), inner) for key, inner in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(index), inner) for index, inner in enumerate(value))


def _value_fault(value: Any, depth: int) -> str | None:
    """Returns an error message for an invalid value, or None if the value is valid.

    Values that are nested inside it are not checked.
    """
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
    """Returns an error message for a mapping with invalid keys, or None if all keys are valid.

    JSON writes numbers, booleans and null as strings if they are keys, so different keys may become the same string.
    """
    for key in values:
        if not (key is None or isinstance(key, str | int | float)):
            return f"has the key {key!r}; a key is a string"
    names = [_key_name(key) for key in values]
    name, count = Counter(names).most_common(1)[0] if names else ("", 1)
    return f"has the key `{name}` twice: keep one of them" if count > 1 else _string_fault("".join(names))


def _string_fault(string: str) -> str | None:
    """Returns an error message for an invalid string, or None if the string is valid.

    A string must not contain NUL, because no file path can contain it, or surrogates, because UTF-8 cannot encode them.
    """
    if "\0" in string:
        return "holds a NUL character"
    return "holds a character that UTF-8 cannot encode" if any("\ud800" <= c <= "\udfff" for c in string) else None


def _key_name(key: Any) -> str:
    """Returns the string that JSON writes for a key."""
    return json.dumps(key) if key is None or isinstance(key, int | float) else str(key)
