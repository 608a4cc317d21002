"""Reads the values of a recipe before they are validated: YAML 1.2, environment variables, paths and `--set KEY=VALUE`.

The size and the nesting depth of a recipe are limited, and every error message says where the error is.
"""

import json
import os
import re
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError, SafeConstructor

from transduce.corpus.corpus_kinds import PATHS
from transduce.settings import MAX_DEPTH, MAX_SHOWN_LENGTH, check_plain
from transduce.storage.nearby_paths import did_you_mean_path

LARGEST = 100_000
"""The maximum size of a recipe in bytes, because the parser takes seconds for a larger one."""

JSON_TAGS = ("map", "seq", "str", "int", "float", "bool", "null")


RECIPE_NAME = "recipe.yaml"  # in a run directory


class _Constructor(SafeConstructor):
    """Constructs only values that JSON can represent.

    Dates are read as strings, because YAML 1.2 does not have them. Other types, such as sets and bytes, raise an error.
    """

    # None stands for unknown tags, which raise an error with the line number.
    yaml_constructors = {
        tag: SafeConstructor.yaml_constructors[tag]
        for tag in (None, *(f"tag:yaml.org,2002:{tag}" for tag in JSON_TAGS))
    } | {"tag:yaml.org,2002:timestamp": SafeConstructor.construct_yaml_str}


def read_yaml(path: Path) -> dict[str, Any]:
    """Reads a YAML 1.2 file that contains a mapping. Raises ValueError if it is missing or contains anything else."""
    if path.is_dir():
        is_run = (path / RECIPE_NAME).exists()
        meant = f"did you mean `{path / RECIPE_NAME}`?" if is_run else "a recipe is a YAML file"
        raise ValueError(f"{path} is a directory; {meant}")
    if not path.exists():
        meant = did_you_mean_path(path) or "; `transduce suggest` writes a recipe for two text files"
        raise ValueError(f"there is no recipe {path}{meant}")
    if path.is_fifo():  # opening a pipe blocks until there is a writer
        raise ValueError(f"{path} is a pipe; write the recipe to a file, and name that")
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{path} has more than {LARGEST:,} bytes; a recipe is a page of YAML, and names the corpora")
    values = parse_yaml(content, place=str(path))
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no sections; a recipe begins with `data:`")
    return values


def parse_yaml(content: bytes, *, place: str) -> Any:
    """Parses YAML 1.2 to values that JSON can represent.

    Raises ValueError if the content is not valid YAML; the message begins with `place`.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    try:
        text = content.decode("utf-8-sig")
        # Deeply nested brackets take the parser minutes, and deep indentation overflows Python's stack.
        if max(accumulate((letter in "[{") - (letter in "]}") for letter in text), default=0) > MAX_DEPTH:
            raise RecursionError
        values = yaml.load(text)
    except DuplicateKeyError as error:
        raise ValueError(f"{place}: {error.problem}: keep one of them") from None
    except RecursionError:
        raise ValueError(f"{place} is nested too deep: settings have at most {MAX_DEPTH} levels") from None
    except Exception as error:  # the library raises errors of many classes
        reason = f"{(str(error).splitlines() or [''])[0]} {_line_of(error, content)}".rstrip()
        reason += ": indent with spaces instead of tabs" if "found character '\\t'" in reason else ""
        raise ValueError(f"{place} is not YAML: {reason}") from None
    check_plain(values, place=place)
    # Converting to JSON and back turns every key into a string and every alias into a copy.
    return json.loads(json.dumps(values))


def _line_of(error: Exception, content: bytes) -> str:
    """Returns the line number of a YAML error in parentheses, with a remedy if an unquoted variable is on the line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return ""
    lines = content.split(b"\n")[mark.line : mark.line + 1]
    remedy = '; inside of braces put "${NAME}" into quotes' if any(b"${" in line for line in lines) else ""
    return f"(line {mark.line + 1}: {getattr(error, 'problem', '')}{remedy})"


VARIABLE = re.compile(r"\$\{(\w+)\}")


def fill_variables(value: Any, place: Path | str) -> Any:
    """Replaces each `${NAME}` with the value of the environment variable `NAME`.

    Raises ValueError if the variable is not set.
    """
    if isinstance(value, dict):
        return {key: fill_variables(inner, place) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_variables(inner, place) for inner in value]
    if not isinstance(value, str):
        return value
    for name in VARIABLE.findall(value):
        if name not in os.environ:
            raise ValueError(
                f"{place} uses ${{{name}}}, and the environment has no {name}: set it, e.g. `export {name}=…`"
            )
    return VARIABLE.sub(lambda match: os.environ[match[1]], value)


def make_absolute(data: Any, folder: Path) -> Any:
    """Makes the paths of corpora absolute, resolving relative paths against `folder`."""
    if isinstance(data, list):
        return [make_absolute(inner, folder) for inner in data]
    if not isinstance(data, dict):
        return data
    return {
        key: os.path.realpath(folder / inner)
        if isinstance(inner, str) and (key in PATHS or (key == "hub" and (folder / inner).is_dir()))
        else make_absolute(inner, folder)
        for key, inner in data.items()
    }


def make_relative(data: object, folder: Path) -> object:
    """Makes the paths of corpora within `folder` relative to it. Other paths are left unchanged."""
    if isinstance(data, list):
        return [make_relative(inner, folder) for inner in data]
    if not isinstance(data, dict):
        return data
    return {
        key: str(Path(inner).relative_to(folder))
        if key in PATHS and isinstance(inner, str) and Path(inner).is_relative_to(folder)
        else make_relative(inner, folder)
        for key, inner in data.items()
    }


def without_corpora(values: Mapping[str, Any], change: str) -> Mapping[str, Any]:
    """Removes the corpora that a `KEY=VALUE` replaces.

    Otherwise the new values would be merged into the old corpus, which may be of a different kind and have other keys.
    """
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
    """Parses `a.b=value` to {a: {b: value}}. The value is read as YAML.

    Raises ValueError if the change has a different form or no value.
    """
    key, equals, text = change.partition("=")
    place = f"--set {change}" if len(change) < MAX_SHOWN_LENGTH else f"--set {change[:MAX_SHOWN_LENGTH]}…"
    if not equals or not all(key.split(".")):
        raise ValueError(f"{place}: write KEY=VALUE, such as --set training.steps=2000")
    if not text.strip():
        raise ValueError(f"{place}: there is no value; `null` switches a setting off")
    value = fill_variables(parse_yaml(os.fsencode(text), place=place), place)
    for name in reversed(key.split(".")):
        value = {name: value}
    mapping: dict[str, Any] = value
    check_plain(mapping, place=place)
    return {"data": make_absolute(mapping["data"], Path())} if "data" in mapping else mapping
