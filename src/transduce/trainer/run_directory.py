"""Claiming a directory for a run: under the recipe that it was begun with, or anew, with what was there kept aside."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transduce.model_directory import MANIFEST, NEXT, RECIPE, recipe_was_edited, write_recipe
from transduce.recipe import LARGEST, Recipe, dump, read_resolved_recipe, without_training_paths

__all__ = ["begin_run", "check_is_run_or_empty", "has_saved", "keep_aside"]

# What a recipe may change between one start of a run and the next: (section, key).
FREE = {
    "training": {"steps", "minutes", "patience", "parallel", "log_every", "validate_every", "validate_by"},
    "data": {"validation", "test"},
}

ASIDE = "before-restart-"  # and a number: where a restart keeps what was there


def keep_aside(out: Path, say: Callable[[str], None]) -> None:
    """Moves what an earlier run wrote into a folder of its own: a restart loses nothing.

    A `ValueError` where something else stands there.
    """
    check_is_run_or_empty(out)
    if not (out / RECIPE).exists() and not ((out / "training").exists() and has_saved(out)):
        return
    number = 1
    while (out / f"{ASIDE}{number}").exists():
        number += 1
    aside = out / f"{ASIDE}{number}"
    contents = _contents(out)
    aside.mkdir()
    # The recipe goes last: as long as it is there, what is left is known to be a run.
    for path in sorted(contents, key=lambda path: path.name == RECIPE):
        path.rename(aside / path.name)
    say(f"the earlier run is kept in {aside}")


def _contents(out: Path) -> list[Path]:
    """What is in a run's directory, but for earlier runs that were set aside."""
    return [path for path in out.iterdir() if not path.name.startswith(ASIDE)] if out.exists() else []


def check_is_run_or_empty(out: Path) -> None:
    """A `ValueError` where `out` is neither empty nor a run: what a run writes would replace what is its owner's."""
    if _contents(out) and not _is_run(out):
        own = (
            f"holds a {RECIPE} that no run has written" if (out / RECIPE).exists() else "is not empty and holds no run"
        )
        raise ValueError(f"{out} {own}; choose another directory for --out")


def _is_run(out: Path) -> bool:
    """Whether a run, or the preparation of one, or a restart that was cut short, has written what is here."""
    training = out / "training"
    prepared = training.is_dir() and (not any(training.iterdir()) or (training / "store").is_dir())
    restarting = (out / RECIPE).exists() and any(out.glob(f"{ASIDE}*"))
    return has_saved(out) or prepared or restarting


def begin_run(recipe: Recipe, out: Path) -> None:
    """Writes the recipe into a new run; refuses to go on with one that has saved under a changed recipe."""
    text = dump(recipe)
    if len(text.encode()) > LARGEST:
        raise ValueError(
            f"with everything resolved the recipe has {len(text.encode()):,} bytes, and could not be read again beyond "
            f"{LARGEST:,}: name fewer corpora, each of more pairs"
        )
    out.mkdir(parents=True, exist_ok=True)
    check_is_run_or_empty(out)
    path = out / RECIPE
    if path.exists() and has_saved(out):
        if recipe_was_edited(out):
            raise ValueError(
                f"{path} was edited after the run had written it, so that nobody knows by what recipe it was trained. "
                "Put it back, or begin anew with --restart (what is there is kept); changes belong into a recipe of "
                "your own, or into --set"
            )
        begun = read_resolved_recipe(path).as_dictionary()
        before, now = (without_training_paths(values) for values in (begun, recipe.as_dictionary()))
        if differences := list(_differences(before, now)):
            raise ValueError(
                f"{out} was begun with another recipe: {'; '.join(differences)}. Train into another directory, "
                "or begin anew with --restart (what is there is kept)"
            )
    elif not path.exists() and has_saved(out) and (out / "training").exists():
        raise ValueError(
            f"{out} holds checkpoints and no {RECIPE}, so that nobody knows what they are of. Put it back, or begin "
            "anew with --restart (what is there is kept)"
        )
    if (out / MANIFEST).exists() and not (out / "training").exists():
        raise ValueError(
            f"{out} holds a model whose `training` folder is gone, so that it cannot go on. Train into another "
            "directory, or begin anew with --restart (what is there is kept)"
        )
    (out / "training").mkdir(exist_ok=True)
    write_recipe(out, text)


def has_saved(out: Path) -> bool:
    """Whether a run has anything that it could go on from, or that was made by its recipe."""
    return (out / MANIFEST).exists() or (out / NEXT).exists() or any((out / "training").glob("step-*"))


def _differences(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Each key whose value is not what it was, in words; keys that may change are passed over."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            if not (len(path) == 1 and key in FREE.get(path[0], ())):
                yield from _differences(old.get(key), new.get(key), (*path, key))
    elif old != new:
        yield f"`{'.'.join(path)}` was {json.dumps(old)} and is {json.dumps(new)}"
