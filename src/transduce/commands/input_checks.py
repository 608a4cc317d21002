"""Checks the paths on a command line before torch is imported, because the import takes seconds."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path


def check_models(directories: Iterable[Path]) -> None:
    """Raises ValueError for the first directory that does not contain a model."""
    from transduce.model_directory.manifest import require_model

    for directory in directories:
        require_model(directory)


def check_exist(*files: Path | None) -> None:
    """Raises OSError for the first file that does not exist; ignores None and `-`, which is standard input."""
    for file in files:
        if file is not None and str(file) != "-":
            file.stat()


def check_glossary(glossary: Path | None, text: Path | None) -> None:
    """Raises ValueError if the text itself was given as the glossary."""
    if glossary is not None and text is not None and glossary.resolve() == text.resolve():
        raise ValueError(f"--glossary {glossary}: this is the text; a glossary has lines of source, tab and target")


def check_recipe(recipe: Path) -> None:
    """Raises ValueError if the file is not a YAML file with a mapping at the top level."""
    from transduce.recipe.recipe_values import read_yaml

    read_yaml(recipe)


def one_recipe(files: Sequence[Path]) -> Path:
    """Returns the recipe that a command line names.

    Raises ValueError unless `files` is a single recipe. If they are text files, the message contains the command that
    writes a recipe for them.
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
