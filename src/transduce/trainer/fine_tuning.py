"""The record of a training that began with another model: what it took from that model, and its test scores.

It lies in the folder `training` of the run, so that the same command, with or without `--from`, resumes the training.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transduce.corpus import VocabularyGrowth, earlier_description
from transduce.model_directory import fingerprint
from transduce.recipe import Recipe, load
from transduce.recipe.fine_tuning import StartingPoint, check_fits
from transduce.runtime.distributed import restart_count
from transduce.settings import Spec, parse_json, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.trainer.run_directory import FINE_TUNING, check_can_go_on, has_checkpoint, has_saved
from transduce.trainer.validation import ValidationScore

__all__ = ["FineTuning", "NamedScore", "Start", "load_training_recipe", "plan_start"]


class NamedScore(Spec):
    """The score of a model on a test set; `fault` says why there is none."""

    name: str
    corpus: dict[str, Any]
    score: ValidationScore | None = None
    fault: str | None = None


class FineTuning(Spec):
    """The content of `fine_tuning.json`."""

    version: Literal[1] = 1
    start: StartingPoint
    base: str  # the fingerprint of the model of --from
    grow_vocabulary: int | None = None  # subwords that were added at most, a side
    before: tuple[NamedScore, ...] = ()  # of the model of --from
    after: tuple[NamedScore, ...] = ()
    model: str | None = None  # the fingerprint of the model that `after` is of

    @classmethod
    def read(cls, out: Path) -> "FineTuning | None":
        """Reads the record of a run; returns None where the training began with weights of its own."""
        path = out / "training" / FINE_TUNING
        if not path.exists():
            return None
        try:
            values = parse_json(read_regular_file(path, MAX_JSON_BYTES), place=str(path))
            return validated(cls, values, place=str(path))
        except ValueError as error:
            raise ValueError(
                f"{error}\nTake that file from a backup, or begin anew with --restart (what is there is kept)"
            ) from None

    def write(self, out: Path) -> None:
        """Writes the record of a run, whose folder `training` exists."""
        atomic_write_text(out / "training" / FINE_TUNING, self.model_dump_json(indent=2) + "\n")

    def growth(self, recipe: Recipe) -> VocabularyGrowth | None:
        """Returns the growth of the model's vocabulary on the new corpora of `recipe`; None where it stays."""
        if self.grow_vocabulary is None:
            return None
        return VocabularyGrowth(self.grow_vocabulary, self.start.new_corpora(recipe))


class Start(NamedTuple):
    """How a training starts: the record of a fine-tuning, and the model directory that is read."""

    record: FineTuning | None = None
    directory: Path | None = None


def load_training_recipe(
    path: Path, changes: Iterable[str], out: Path, *, start_from: Path | None, restart: bool
) -> Recipe:
    """Returns the recipe of a training in `out`, over the settings of the model with which it begins or has begun."""
    record, has_begun = _earlier(out, start_from, restart=restart)
    if start_from is not None and not has_begun:
        return load(path, changes, StartingPoint.of(start_from))
    return load(path, changes, record.start if record else None)


def plan_start(
    recipe: Recipe, out: Path, start_from: Path | None, grow_vocabulary: int | None, *, restart: bool
) -> Start:
    """Returns how a training in `out` starts, anew or again.

    Raises ValueError where the recipe does not fit the model, and where `grow_vocabulary` is not that of the run.
    """
    record, has_begun = _earlier(out, start_from, restart=restart)
    if has_begun:
        before = record.grow_vocabulary if record else None
        if grow_vocabulary not in (None, before):
            raise ValueError(
                f"--grow-vocabulary {grow_vocabulary}: {out} was begun with {before or 'none'}; leave it out, or train "
                "into another directory"
            )
        # A run with a checkpoint needs its first model, which may be gone, only where the token store is not whole.
        has_store = earlier_description(out / "training" / "store") is not None
        is_complete = has_checkpoint(out) and (record is None or has_store)
        return Start(record, None if is_complete else _first_model(out, record, start_from))
    if start_from is None and record is not None:
        start_from, grow_vocabulary = Path(record.start.directory), grow_vocabulary or record.grow_vocabulary
    if start_from is None:
        if grow_vocabulary is not None:
            raise ValueError("--grow-vocabulary adds to the vocabulary of another model: name the model with --from")
        recipe.data.check_held_out()
        return Start()
    start = StartingPoint.of(start_from)
    check_fits(start, recipe)
    new = FineTuning(start=start, base=fingerprint(start_from), grow_vocabulary=grow_vocabulary)
    # The model of an earlier start that saved nothing has been measured already.
    return Start(record if record and record.model_copy(update={"before": ()}) == new else new, start_from)


def _first_model(out: Path, record: FineTuning | None, start_from: Path | None) -> Path | None:
    """Returns the model with which a run without a checkpoint begins again; None where it began with none.

    Raises ValueError where `start_from` is another model.
    """
    if record is None:
        return start_from
    directory = start_from or Path(record.start.directory)
    if fingerprint(directory) != record.base:
        raise ValueError(
            f"{directory} is not the model with which {out} was begun: name that model with --from, or begin anew with "
            "--restart (what is there is kept)"
        )
    return directory


def _earlier(out: Path, start_from: Path | None, *, restart: bool) -> tuple[FineTuning | None, bool]:
    """Returns the record of the run in `out`, and whether the run has saved anything; a restart sees neither.

    Raises ValueError where a restart of a fine-tuning would forget or move its first model, or a run cannot go on.
    """
    if restart and restart_count() == 0:
        if start_from is not None and start_from.resolve() == out.resolve():
            raise ValueError(f"--restart moves {out} aside, which --from names: train into another directory")
        if start_from is None and (out / "training" / FINE_TUNING).exists():
            raise ValueError(
                f"--restart: {out} began with another model: name the model again with --from; to begin without one, "
                "train into another directory"
            )
        return None, False
    check_can_go_on(out)
    return FineTuning.read(out), has_saved(out)
