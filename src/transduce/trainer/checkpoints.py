"""Checkpoints: all that a run needs to go on as if it had never stopped. Nothing in them is ever unpickled.

Each is a folder with a manifest of its own. It is written aside, flushed, renamed and read back before an older one
goes; what is not as it was written is never loaded.
"""

import errno
import json
import re
import shutil
from collections.abc import Callable, Collection
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file
from torch import Tensor

from transduce.storage.atomic import flush_to_disk, write_tensors
from transduce.storage.checksums import checksums_of_files, find_damage
from transduce.storage.migrations import migrate_state

WEIGHTS, OPTIMISER, STATE, MANIFEST = "model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"


class DamagedError(ValueError):
    """A checkpoint is not as it was written."""


class Checkpoint(NamedTuple):
    """One moment of a training."""

    step: int
    weights: dict[str, Tensor]  # each contiguous, with storage of its own, on the CPU
    optimiser: dict[str, Tensor]
    state: dict[str, Any]  # position in the data, best score, patience, loss scale, environment …


class Checkpoints:
    """The checkpoints of one run, in a folder each; where one is saved, the newest `keep` stay.

    Checkpoints at multiples of `every` steps, or saved as due by the clock where it is None, are the schedule's. One of
    a stop is deleted as soon as the next is written, so that stopping does not change what is averaged later.
    """

    def __init__(self, directory: Path, keep: int = 1, every: int | None = 1) -> None:
        self.directory, self.keep, self.every = directory, keep, every

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        numbers = [path.name.removeprefix("step-") for path in self.directory.glob("step-*") if path.is_dir()]
        # A folder that somebody has copied, such as `step-00000040.old`, is none of the run's.
        return sorted(int(number) for number in numbers if re.fullmatch(r"[0-9]{8,}", number))

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes aside, flushes to the disk, renames and reads back: a checkpoint is there whole or not at all.

        An `OSError` where it cannot be written; all earlier ones are then as they were.
        """
        try:
            self._save(checkpoint)
        except OSError:
            self._forget_begun()  # it would take the room of the next attempt
            raise
        self.tidy()

    def _save(self, checkpoint: Checkpoint) -> None:
        """As `save`, leaving what is no longer needed where it is."""
        place = self._place(checkpoint.step)
        aside = self.directory / f"writing-{checkpoint.step}"
        self._forget_begun()
        aside.mkdir(parents=True)
        write_tensors(checkpoint.weights, aside / WEIGHTS)
        write_tensors(checkpoint.optimiser, aside / OPTIMISER)
        (aside / STATE).write_text(json.dumps({"step": checkpoint.step, **checkpoint.state}, indent=1), "utf-8")
        files = [aside / name for name in (WEIGHTS, OPTIMISER, STATE)]
        (aside / MANIFEST).write_text(json.dumps(checksums_of_files(files), indent=1), "utf-8")
        for path in (*files, aside / MANIFEST, aside):
            flush_to_disk(path)
        if place.exists():
            shutil.rmtree(place)
        aside.rename(place)
        flush_to_disk(self.directory)
        if wrong := self.find_damage(checkpoint.step):
            shutil.rmtree(place)
            raise OSError(errno.EIO, f"what was written is not what is read back: {'; '.join(wrong)}", str(place))

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of `step`; a `DamagedError` where it is not as it was written."""
        place = self._checked(step)
        state = migrate_state(json.loads((place / STATE).read_text("utf-8")))
        return Checkpoint(state.pop("step"), load_file(place / WEIGHTS), load_file(place / OPTIMISER), state)

    def weights(self, step: int) -> dict[str, Tensor]:
        """The weights of `step` alone; a `DamagedError` where the checkpoint is not as it was written."""
        weights: dict[str, Tensor] = load_file(self._checked(step) / WEIGHTS)
        return weights

    def newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest that is whole; None where nothing was saved, a `DamagedError` where nothing saved is whole.

        Those that are damaged are told, and kept under another name: they are no part of the run any more.
        """
        found = None
        for step in reversed(self.steps()):
            try:
                found = self.load(step)
                break
            except DamagedError as error:
                say(f"warning: {error}; going back to the checkpoint before it")
        damaged = [step for step in self.steps() if found is None or step > found.step]
        self._set_aside(damaged)
        return found

    def drop_damaged(self, say: Callable[[str], None]) -> None:
        """Leaves those that are whole; the others are told, and kept under another name."""
        damaged = {step: faults for step in self.steps() if (faults := self.find_damage(step))}
        for step, faults in damaged.items():
            say(f"warning: {self._place(step)} is damaged: {'; '.join(faults)}; it is left out")
        self._set_aside(damaged)

    def _set_aside(self, damaged: Collection[int]) -> None:
        if damaged and len(damaged) == len(self.steps()):
            raise DamagedError(f"no checkpoint in {self.directory} is whole; begin anew with --restart (all is kept)")
        for step in damaged:
            self._place(step).rename(self._free(f"damaged-{step:08d}"))

    def find_damage(self, step: int) -> list[str]:
        """What is wrong with the checkpoint of `step`, a sentence each."""
        place = self._place(step)
        try:
            return find_damage(place, json.loads((place / MANIFEST).read_text("utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return [f"{MANIFEST} is missing or no manifest"]

    def tidy(self) -> None:
        """Leaves the newest checkpoint and the newest of the run's own, and nothing of a write that was cut short."""
        steps = self.steps()
        regular = [step for step in steps if step == steps[-1] or self._is_due(step)]
        for step in set(steps) - set(regular[-self.keep :]):
            shutil.rmtree(self._place(step))
        self._forget_begun()

    def _is_due(self, step: int) -> bool:
        """Returns whether the schedule asked for the checkpoint of `step`."""
        if self.every is not None:
            return step % self.every == 0
        try:
            return bool(json.loads((self._place(step) / STATE).read_text("utf-8")).get("is_due", True))
        except (OSError, ValueError, AttributeError):
            return True  # a damaged checkpoint is for `newest` to find

    def _forget_begun(self) -> None:
        """Removes what a write that was cut short has left."""
        for path in self.directory.glob("writing-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _checked(self, step: int) -> Path:
        """Where the checkpoint of `step` is, when it is whole."""
        if wrong := self.find_damage(step):
            raise DamagedError(f"{self._place(step)} is damaged: {'; '.join(wrong)}")
        return self._place(step)

    def _place(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def _free(self, name: str) -> Path:
        """A name in the folder that nothing has yet."""
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(place for place in map(self.directory.joinpath, names) if not place.exists())
