"""Changes of a recipe from the command line: `--set KEY=VALUE`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.recipe.paths import fill_variables, make_absolute
from transduce.recipe.yaml_reader import parse_yaml
from transduce.settings import MAX_SHOWN_LENGTH, check_plain

__all__ = ["parse_change", "without_corpora"]


def without_corpora(values: Mapping[str, Any], change: str) -> Mapping[str, Any]:
    """Returns `values` without the corpora that a `KEY=VALUE` replaces: keys of two kinds of corpus do not mix."""
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


def parse_change(change: str) -> dict[str, Any]:
    """Returns `a.b=value` as {a: {b: value}}, the value read as YAML."""
    key, equals, text = change.partition("=")
    place = f"--set {change}" if len(change) < MAX_SHOWN_LENGTH else f"--set {change[:MAX_SHOWN_LENGTH]}…"
    if not equals or not all(key.split(".")):
        raise ValueError(f"{place}: write KEY=VALUE, such as --set training.steps=2000")
    if not text.strip():
        raise ValueError(f"{place}: there is no value; `null` switches a setting off")
    value = fill_variables(parse_yaml(os.fsencode(text), place=place), place)
    for part in reversed(key.split(".")):
        value = {part: value}
    mapping: dict[str, Any] = value
    check_plain(mapping, place=place)
    return {"data": make_absolute(mapping["data"], Path())} if "data" in mapping else mapping
