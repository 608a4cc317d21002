"""Manages the directory of a run: begins or resumes the run, and moves an earlier run aside on a restart.

All steps of a run are trained with the same recipe, except that a few of its keys may be changed when the run is
resumed.
"""

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from transduce.model_directory.manifest import RECIPE, has_model
from transduce.model_directory.writing import recipe_was_edited, write_recipe
from transduce.recipe.recipe import Recipe, dump, read_resolved_recipe, without_training_paths
from transduce.recipe.recipe_values import LARGEST
from transduce.run.checkpoints import NOT_YET, SAVED, saved_steps
from transduce.storage.atomic import atomic_write_text, unfinished_path

_log = logging.getLogger("transduce")

# The keys of each section of the recipe that may always be changed when a run is resumed.
CHANGEABLE = {
    "training": {"steps", "epochs", "minutes", "patience", "parallel", "log_every", "validate_every", "validate_by"},
    "data": {"validation", "test"},
}
# Further keys of `training` that may be changed, because this helps if a run diverges, or has to continue with less
# memory or more processes. They affect all following steps, so the user must accept the change explicitly.
ACCEPTED = {"clip", "micro_batches", "precision", "schedule"}
CHANGEABLE_IF_ACCEPTED = {**CHANGEABLE, "training": CHANGEABLE["training"] | ACCEPTED}

FINE_TUNING = "fine_tuning.json"  # file in `training` with the record of a run that started from another model

ASIDE = "before-restart-"  # a restart moves the earlier run to a folder with this name, followed by a number


def move_aside(out: Path) -> None:
    """Moves an earlier run in `out` to a new folder inside `out`, so that a restart does not delete it.

    Does nothing if `out` holds no run. Raises ValueError if `out` holds anything other than a run.
    """
    check_is_run_or_empty(out)
    if not (out / RECIPE).exists() and not has_saved(out):
        return
    aside = next(path for number in count(1) if not (path := out / f"{ASIDE}{number}").exists())
    contents = _contents(out)
    aside.mkdir()
    # The recipe is moved last, so that the directory is still recognised as a run if the restart is interrupted.
    for path in sorted(contents, key=lambda path: path.name == RECIPE):
        path.rename(aside / path.name)
    _log.info(f"the earlier run is kept in {aside}")


def _contents(out: Path) -> list[Path]:
    """Returns the paths in a run directory, except the folders of runs that a restart has moved aside."""
    return [path for path in out.iterdir() if not path.name.startswith(ASIDE)] if out.exists() else []


def check_is_run_or_empty(out: Path) -> None:
    """Raises ValueError if `out` is neither empty nor the directory of a run.

    This prevents a run from replacing other files.
    """
    if _contents(out) and not _is_run(out):
        has_recipe = (out / RECIPE).exists()
        fault = f"holds a {RECIPE} that no run has written" if has_recipe else "is not empty and holds no run"
        raise ValueError(f"{out} {fault}; choose another directory for --out")


def _is_run(out: Path) -> bool:
    """Returns True if the files in the directory come from a run, even one that has only prepared its data.

    A directory in which a restart was interrupted also counts as a run.
    """
    training = out / "training"
    # A run that was killed while it was writing its first file has left the temporary file behind.
    first = [unfinished_path(training / name) for name in (FINE_TUNING, SAVED)]
    written = [*first, *(training / name for name in ("store", "tensorboard", FINE_TUNING, SAVED))]
    is_prepared = training.is_dir() and (not any(training.iterdir()) or any(path.exists() for path in written))
    is_restarting = (out / RECIPE).exists() and any(out.glob(f"{ASIDE}*"))
    return has_saved(out) or is_prepared or is_restarting


def begin_run(recipe: Recipe, out: Path, record: str | None = None, *, accept_changes: bool = False) -> list[str]:
    """Begins a new run in `out`, or prepares the run in `out` to be resumed, by writing its recipe there.

    For a run that starts from another model, `record` is the content of its record, `fine_tuning.json`. It is written
    before the recipe, because the recipe may be incomplete without it.

    A run to be resumed must have the same recipe as before, except for the keys in `CHANGEABLE`. With `accept_changes`,
    the keys in `CHANGEABLE_IF_ACCEPTED` may also differ; the earlier recipe is then kept in `training`. Returns one
    sentence for each such change.

    Raises ValueError if `out` holds saved weights, and the recipe there is missing, was edited, or differs from
    `recipe` in other keys.
    """
    text = dump(recipe)
    if len(text.encode()) > LARGEST:
        raise ValueError(
            f"with everything resolved the recipe has {len(text.encode()):,} bytes, and could not be read again beyond "
            f"{LARGEST:,}: name fewer corpora, each of more pairs"
        )
    out.mkdir(parents=True, exist_ok=True)
    check_is_run_or_empty(out)
    accepted = _check_can_resume(recipe, out, accept_changes=accept_changes) if has_saved(out) else []
    (out / "training").mkdir(exist_ok=True)
    if record is not None and not has_saved(out):
        atomic_write_text(out / "training" / FINE_TUNING, record)
    if not has_saved(out):
        atomic_write_text(out / "training" / SAVED, NOT_YET)
    if accepted:
        # The name of the earlier recipe's file contains the number of the last step that was trained with it.
        kept = out / "training" / f"recipe-until-step-{max(saved_steps(out / 'training'), default=0)}.yaml"
        if not kept.exists():  # if the file exists, no step has been trained with the recipe that is now replaced
            atomic_write_text(kept, (out / RECIPE).read_text("utf-8"))
    write_recipe(out, text)
    return accepted


def _check_can_resume(recipe: Recipe, out: Path, *, accept_changes: bool) -> list[str]:
    """Returns one sentence for each accepted change of the recipe.

    Raises ValueError if the run cannot be resumed with `recipe`.
    """
    changed: list[str] = []
    path = out / RECIPE
    if path.exists():
        if recipe_was_edited(out):
            raise ValueError(
                f"{path} was edited after the run had written it, so that nobody knows by what recipe it was trained. "
                "Put it back, or begin anew with --restart (what is there is kept); changes belong into a recipe of "
                "your own, or into --set"
            )
        begun = read_resolved_recipe(path).as_dictionary()
        before, now = (without_training_paths(values) for values in (begun, recipe.as_dictionary()))
        changed, refused = (
            list(_differences(before, now, changeable)) for changeable in (CHANGEABLE, CHANGEABLE_IF_ACCEPTED)
        )
        if refused or (changed and not accept_changes):
            remedy = "" if refused else "go on with the change by `transduce train` with --accept-changes, "
            raise ValueError(
                f"{out} was begun with another recipe: {'; '.join(changed)}. Train into another directory, {remedy}"
                "or begin anew with --restart (what is there is kept)"
            )
    elif (out / "training").exists():
        raise ValueError(
            f"{out} holds checkpoints and no {RECIPE}, so that nobody knows what they are of. Put it back, or begin "
            "anew with --restart (what is there is kept)"
        )
    check_can_go_on(out)
    return changed


def check_can_go_on(out: Path) -> None:
    """Raises ValueError if `out` holds a model whose run cannot be resumed because its checkpoints are missing."""
    if not has_model(out):
        return
    saved = out / "training" / SAVED
    if not (out / "training").exists():
        gone = "`training` folder is"
    elif not has_checkpoint(out) and not (saved.exists() and saved.read_text("utf-8") == NOT_YET):
        gone = "checkpoints are"
    else:
        return
    raise ValueError(
        f"{out} holds a model whose {gone} gone, so that it cannot go on. Train into another directory, or begin anew "
        "with --restart (what is there is kept)"
    )


def has_saved(out: Path) -> bool:
    """Returns True if the run in `out` has saved a model or a checkpoint."""
    return has_model(out) or has_checkpoint(out)


def has_checkpoint(out: Path) -> bool:
    """Returns True if the run in `out` has a checkpoint; one whose replacement was interrupted also counts."""
    return bool(saved_steps(out / "training")) or any((out / "training").glob("replaced-*"))


def _differences(
    before: Any, now: Any, changeable: Mapping[str, Collection[str]], path: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yields one sentence for each key whose value differs between `before` and `now`.

    `changeable` contains, for each section of the recipe, the keys whose values are not compared.
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys([*before, *now]):
            if not (len(path) == 1 and key in changeable.get(path[0], ())):
                yield from _differences(before.get(key), now.get(key), changeable, (*path, key))
    elif before != now:
        yield f"`{'.'.join(path)}` was {json.dumps(before)} and is {json.dumps(now)}"
