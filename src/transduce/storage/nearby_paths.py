"""Suggests paths that a user may have meant, for messages about a path that does not exist."""

import difflib
import os
from pathlib import Path

MAX_ENTRIES = 1_000  # maximum number of entries in a folder that are considered
LEAST_SIMILARITY = 0.8  # minimum similarity of two file names, from 0 to 1; below it, the files may be unrelated
RUNS = "runs"  # the folder in which the examples in the documentation create model directories


def did_you_mean_path(path: Path) -> str:
    """Returns "; did you mean `X`?", where X is the path in the same folder whose name is most similar to `path`.

    Returns an empty string if no name is similar enough.
    """
    names = [entry.name for entry in _entries(path.parent)]
    nearest = difflib.get_close_matches(path.name, names, n=1, cutoff=LEAST_SIMILARITY)
    return f"; did you mean `{path.with_name(nearest[0])}`?" if nearest and nearest[0] != path.name else ""


def is_name_on_hub(path: Path) -> bool:
    """Returns True if a missing path looks like OWNER/NAME, the name of a model on the Hugging Face hub."""
    return len(path.parts) == 2 and not path.parent.is_dir()


def did_you_mean_model(path: Path, marker: str) -> str:
    """Returns "; did you mean `X`?", where X is a model directory near `path`, or an empty string if there is none.

    A model directory is recognised by the file `marker`. The function suggests the folder that contains `path`, a
    folder inside `path`, or a folder with a similar name next to `path` or in `runs`.
    """

    def models_in(folder: Path) -> list[Path]:
        return [entry for entry in _entries(folder) if (entry / marker).exists()]

    if (path.parent / marker).exists():
        return f"; did you mean `{path.parent}`?"
    if inside := models_in(path):
        return f"; did you mean `{inside[0]}`?"
    siblings = {model.name: model for folder in (path.parent / RUNS, path.parent) for model in models_in(folder)}
    nearest = difflib.get_close_matches(path.name, siblings, n=1)
    return f"; did you mean `{siblings[nearest[0]]}`?" if nearest else ""


def _entries(folder: Path) -> list[Path]:
    """Returns up to `MAX_ENTRIES` entries of a folder, in alphabetical order, or none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for _, entry in zip(range(MAX_ENTRIES), entries, strict=False))
    except OSError:
        return []
    return [folder / name for name in names]
