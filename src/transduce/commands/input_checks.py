"""Checks names on the command line before torch is imported, because the import takes seconds."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path


def check_models(directories: Iterable[Path]) -> None:
    """Raises ValueError for a directory that holds no model."""
    from transduce.model_directory.manifest import require_model

    for directory in directories:
        require_model(directory)


def check_exist(*files: Path | None) -> None:
    """Raises OSError for a named file that does not exist; `-` is standard input."""
    for file in files:
        if file is not None and str(file) != "-":
            file.stat()


def check_recipe(recipe: Path) -> None:
    """Raises ValueError for a file that is not YAML with sections."""
    from transduce.recipe.recipe_values import read_yaml

    read_yaml(recipe)


def one_recipe(files: Sequence[Path]) -> Path:
    """The recipe that a command line names.

    If the files are texts, raises ValueError with the command that writes a recipe for them.
    """
    from transduce.commands.corpus_arguments import is_recipe

    try:
        if len(files) == 1:
            check_recipe(files[0])
            return files[0]
    except ValueError:
        if is_recipe(files) or not files[0].is_file():
            raise
    if len(files) > 1 and is_recipe(files[:1]):
        rest = shlex.join(map(str, files[1:]))
        raise ValueError(f"{rest}: name one recipe; `--set KEY=VALUE` has an equals sign and no space")
    shown = shlex.join(map(str, files))
    corpus = shown if len(files) == 2 else "SOURCE TARGET"
    raise ValueError(
        f"{shown}: name one recipe, a file .yaml; "
        f"`transduce suggest {corpus} --minutes 60 --out recipe.yaml` writes one for two text files"
    )
