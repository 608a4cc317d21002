"""What a file of settings may hold, whoever wrote it: plain values, not too many, too large or nested too deep."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["DEEPEST", "check_plain"]

LARGEST = 2**53 - 1  # whole numbers that every reader of JSON keeps exact
DEEPEST = 50  # levels of mappings and lists
MOST = 100_000  # values, each counted as often as an alias repeats it

Path = tuple[str, ...]


def check_plain(values: Any, *, place: str) -> None:
    """A `ValueError` with `place` and the key's path where `values` are no JSON, or more than settings can be."""
    pending: list[tuple[Path, Any]] = [((), values)]
    seen = 0
    while pending:
        path, value = pending.pop()
        seen += 1
        fault = f"unfolds to more than {MOST:,} values" if seen > MOST else _fault(value, len(path))
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


def _fault(value: Any, depth: int) -> str | None:
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
