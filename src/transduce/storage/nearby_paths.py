"""Paths that a user may have meant, for messages about a path that does not exist."""

import difflib
import os
from pathlib import Path

MAX_ENTRIES = 1_000  # largest number of entries in a folder that are compared
LEAST_SIMILARITY = 0.8  # of file names, from 0 to 1; less similar names may belong to unrelated files
RUNS = "runs"  # the folder in which the documentation puts model directories


def did_you_mean_path(path: Path) -> str:
    """The question "; did you mean `X`?" for the entry of the same folder with the most similar name, else empty."""
    names = [entry.name for entry in _entries(path.parent)]
    nearest = difflib.get_close_matches(path.name, names, n=1, cutoff=LEAST_SIMILARITY)
    return f"; did you mean `{path.with_name(nearest[0])}`?" if nearest and nearest[0] != path.name else ""


def did_you_mean_model(path: Path, marker: str) -> str:
    """The question "; did you mean `X`?" for a model directory near `path`; `marker` is a file that each has.

    It may be a folder in `path`, the folder that contains `path`, or a folder with a similar name next to `path` or in
    `runs`.
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
    """At most MAX_ENTRIES entries of a folder, in alphabetical order; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for _, entry in zip(range(MAX_ENTRIES), entries, strict=False))
    except OSError:
        return []
    return [folder / name for name in names]
