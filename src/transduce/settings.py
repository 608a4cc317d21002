"""Settings: the frozen specs that every part declares beside its class, how they are merged, and how they are checked.

A preset, a recipe, `--set` and a `config.json` are dictionaries until they are merged; only the whole is
validated, so that a part may be named by a few keys and an error can say where each key belongs.
"""

import difflib
import json
import typing
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

__all__ = ["DEEPEST", "LONGEST_SHOWN", "Spec", "check_plain", "merged", "parse_json", "validated"]

FAULTS_TOLD, LONGEST_SHOWN = 20, 200  # of many faults the first; of a long value the beginning

# What a file of settings may hold, whoever wrote it: plain values, not too many, too large or nested too deep.
LARGEST = 2**53 - 1  # whole numbers that every reader of JSON keeps exact
DEEPEST = 50  # levels of mappings and lists
MOST = 100_000  # values, each counted as often as an alias repeats it

KeyPath = tuple[str, ...]

AnySpec = TypeVar("AnySpec", bound="Spec")


class Spec(BaseModel):
    """Base of every settings record: frozen, strict, unknown keys and numbers that are none refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())

    def as_dictionary(self) -> dict[str, Any]:
        """The whole record, defaults included, as plain JSON values."""
        dictionary: dict[str, Any] = self.model_dump(mode="json")
        return dictionary


def merged(base: Any, change: Any) -> Any:
    """`change` laid over `base`, key by key.

    A mapping that names another `kind` replaces what was there: the keys of one variant mean nothing to
    another.
    """
    if not isinstance(base, Mapping) or not isinstance(change, Mapping):
        return change
    if "kind" in change and change["kind"] != base.get("kind"):
        return dict(change)
    return {**base, **{key: merged(base.get(key), value) for key, value in change.items()}}


def validated(spec: type[AnySpec], values: Mapping[str, Any], *, place: str) -> AnySpec:
    """`values` as a `spec`; a `ValueError` names `place`, the key's path, what is wrong and what would be right."""
    check_plain(values, place=place)
    try:
        return spec.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False)
        faults = [_fault(spec, values, fault) for fault in found[:FAULTS_TOLD]]
        if len(found) > FAULTS_TOLD:
            faults.append(f"… and {len(found) - FAULTS_TOLD:,} more")
        raise ValueError(f"{place}: " + "\n".join(dict.fromkeys(faults))) from None


def parse_json(content: bytes, *, place: str) -> Any:
    """Returns the values in the content of a JSON file; raises ValueError with `place` for content that is no JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is no JSON: {error}") from None


def _fault(spec: type[Spec], values: Any, fault: Any) -> str:
    """One sentence for one of pydantic's errors."""
    path = _path(values, fault["loc"])
    if fault["type"] == "missing":
        return f"`{'.'.join([*path, str(fault['loc'][-1])])}` is missing"
    if fault["type"] == "extra_forbidden":
        return _unknown_key(spec, path, fault["loc"])
    if fault["type"] == "value_error":
        return f"`{'.'.join(path)}`: {fault['ctx']['error']}" if path else str(fault["ctx"]["error"])
    where = f"`{'.'.join(path)}` is " if path else "this is "
    return f"{where}{_shown(fault['input'])}: {fault['msg'][0].lower()}{fault['msg'][1:]}"


def _shown(value: Any) -> str:
    """A value in a message, cut short where it is long."""
    text = json.dumps(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _path(values: Any, tried: tuple[str | int, ...]) -> list[str]:
    """The steps of `tried` that lead through `values`; the others are variants of unions, which no file has."""
    path = []
    for step in tried:
        places = range(len(values)) if isinstance(values, list) else values if isinstance(values, Mapping) else ()
        if step in places:
            path.append(str(step))
            values = values[step]
    return path


def _unknown_key(spec: type[Spec], path: list[str], tried: tuple[str | int, ...]) -> str:
    """Says which key is unknown, the nearest one of its section, and the kinds or sections that do have it."""
    key, keys = path[-1], list(_keys(spec))
    # Places in a list and names that a user gives are no sections.
    section = ".".join(step for step in path[:-1] if step in {other.name for other in keys})
    homes = sorted({other.section for other in keys if other.name == key})
    here = [other for other in keys if other.section == section]
    siblings = [other.name for other in here if other.kind in tried] or [other.name for other in here]
    sentence = f"unknown key `{'.'.join(path)}`"
    if section in homes:
        kinds = " or ".join(sorted(f"`{other.kind}`" for other in here if other.name == key and other.kind))
        return f"{sentence}; `{key}` belongs to " + (f"kind {kinds}" if kinds else f"another form of `{section}`")
    if near := difflib.get_close_matches(key, siblings, n=1, cutoff=0.6):
        return f"{sentence}; did you mean `{near[0]}`?"
    if homes:
        places = " or ".join(f"`{home}`" if home else "the top level" for home in homes)
        return f"{sentence}; `{key}` belongs in {places}"
    if anywhere := difflib.get_close_matches(key, {other.name for other in keys}, n=1, cutoff=0.7):
        return f"{sentence}; the nearest key elsewhere is `{anywhere[0]}`"
    return f"{sentence}; keys here: {', '.join(dict.fromkeys(siblings))}"


class _Key(NamedTuple):
    """A key that a file may have: its section, its name, and the kind of section that has it, where there are kinds."""

    section: str
    name: str
    kind: str | None


def _keys(spec: type[BaseModel], section: str = "") -> Iterator[_Key]:
    """Every key of the tree of specs below `spec`."""
    kind = spec.model_fields["kind"].default if "kind" in spec.model_fields else None
    for name, field in spec.model_fields.items():
        yield _Key(section, name, kind)
        for member in _specs_in(field.annotation):
            yield from _keys(member, f"{section}.{name}".lstrip("."))


def _specs_in(annotation: Any) -> Iterator[type[Spec]]:
    """The spec types that an annotation mentions, through unions, optionals, tuples and dictionaries."""
    arguments = typing.get_args(annotation)
    if not arguments and isinstance(annotation, type) and issubclass(annotation, Spec):
        yield annotation
    for argument in arguments:
        yield from _specs_in(argument)


def check_plain(values: Any, *, place: str) -> None:
    """A `ValueError` with `place` and the key's path where `values` are no JSON, or more than settings can be."""
    pending: list[tuple[KeyPath, Any]] = [((), values)]
    seen = 0
    while pending:
        path, value = pending.pop()
        seen += 1
        fault = f"unfolds to more than {MOST:,} values" if seen > MOST else _fault_of_value(value, len(path))
        if fault:
            shown = f"{'.'.join(path[:3])}…" if len(path) > DEEPEST else ".".join(path)
            raise ValueError(f"{place}: {f'`{shown}`' if path else 'the top level'} {fault}")
        pending += [((*path, step), inner) for step, inner in _inside(value)]


def _inside(value: Any) -> Iterator[tuple[str, Any]]:
    """The values in a mapping or list, each with the key or number that leads to it."""
    if isinstance(value, Mapping):
        yield from ((_name(key), inner) for key, inner in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(number), inner) for number, inner in enumerate(value))


def _fault_of_value(value: Any, depth: int) -> str | None:
    """What is wrong with one value, whatever is in it."""
    if depth > DEEPEST:
        return f"is nested deeper than {DEEPEST} levels"
    if isinstance(value, Mapping):
        return _fault_of_keys(value)
    if isinstance(value, str):
        return _fault_of_text(value)
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"is beyond {LARGEST:,}, the largest whole number"
    if value is None or isinstance(value, int | float | list | tuple):
        return None
    return f"is a {type(value).__name__}; write a text, a number, a list or a mapping"


def _fault_of_keys(values: Mapping[Any, Any]) -> str | None:
    """What is wrong with the keys of a mapping; JSON has texts for keys, and writes numbers as such."""
    for key in values:
        if not (key is None or isinstance(key, str | int | float)):
            return f"has the key {key!r}; a key is a text"
    name, times = Counter(map(_name, values)).most_common(1)[0] if values else ("", 1)
    return f"has the key `{name}` twice: keep one of them" if times > 1 else _fault_of_text("".join(map(_name, values)))


def _fault_of_text(text: str) -> str | None:
    """What a text may not hold, since no path has the one, and no file of UTF-8 the other."""
    if "\0" in text:
        return "holds a NUL character"
    return "holds what is no UTF-8" if any("\ud800" <= letter <= "\udfff" for letter in text) else None


def _name(key: Any) -> str:
    """A key as JSON writes it."""
    return json.dumps(key) if key is None or isinstance(key, int | float) else str(key)
