"""The paths of a recipe: environment variables in them, and the folder to which they are relative."""

import os
import re
from pathlib import Path
from typing import Any

from transduce.corpus import PATHS

__all__ = ["fill_variables", "make_absolute"]

VARIABLE = re.compile(r"\$\{(\w+)\}")


def fill_variables(value: Any, place: Path | str) -> Any:
    """Returns `value` with each `${NAME}` replaced by the environment variable; raises ValueError where it is unset."""
    if isinstance(value, dict):
        return {key: fill_variables(inner, place) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill_variables(inner, place) for inner in value]
    return VARIABLE.sub(lambda match: _variable(match[1], place), value) if isinstance(value, str) else value


def _variable(name: str, place: Path | str) -> str:
    if name not in os.environ:
        raise ValueError(f"{place} uses ${{{name}}}, and the environment has no {name}: set it, e.g. `export {name}=…`")
    return os.environ[name]


def make_absolute(data: Any, folder: Path) -> Any:
    """Returns `data` with the paths of its corpora made absolute, from `folder`."""
    if isinstance(data, list):
        return [make_absolute(inner, folder) for inner in data]
    if not isinstance(data, dict):
        return data
    return {
        key: os.path.realpath(folder / inner) if _is_path(key, inner, folder) else make_absolute(inner, folder)
        for key, inner in data.items()
    }


def _is_path(key: str, value: Any, folder: Path) -> bool:
    """Whether a setting of a corpus is a path; `hub` may name a folder."""
    return isinstance(value, str) and (key in PATHS or (key == "hub" and (folder / value).is_dir()))
