"""Checks of names on the command line, before torch is imported, which takes seconds."""

from collections.abc import Iterable
from pathlib import Path


def check_models(directories: Iterable[Path]) -> None:
    """Raises ValueError for a directory that holds no model."""
    from transduce.model_directory.manifest import require_model

    for directory in directories:
        require_model(directory)


def check_exist(*files: Path | None) -> None:
    """Raises OSError for a file that is named and does not exist; `-` is standard input."""
    for file in files:
        if file is not None and str(file) != "-":
            file.stat()


def check_recipe(recipe: Path) -> None:
    """Raises ValueError for a file that is no YAML with sections."""
    from transduce.recipe.recipe_values import read_yaml

    read_yaml(recipe)
