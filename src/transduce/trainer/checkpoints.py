"""Checkpoints on disk: everything that a training needs to resume and end with bit-identical weights.

A checkpoint is a folder with a manifest. It is written beside its place, flushed, renamed and read back before an
older one is deleted. A damaged checkpoint is never loaded, and nothing is unpickled.
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
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file

WEIGHTS, OPTIMISER, STATE, MANIFEST = "model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"


class DamagedError(ValueError):
    """A checkpoint differs from its manifest."""


class Checkpoint(NamedTuple):
    """A training after a step."""

    step: int
    weights: dict[str, Tensor]  # on the CPU, each contiguous and with storage of its own
    optimiser: dict[str, Tensor]
    state: dict[str, Any]  # position in the data, best score, loss scale, environment and more


class Checkpoints:
    """The checkpoints of a run, a folder each; `save` keeps the newest `keep` of the schedule and the newest of all.

    The schedule's checkpoints are those at multiples of `every` steps, or, where `every` is None and the clock decides,
    those saved with `is_due`. The others were saved at a stop and are deleted when the next is saved, so that stopping
    does not change which checkpoints are averaged.
    """

    def __init__(self, directory: Path, keep: int = 1, every: int | None = 1) -> None:
        self.directory, self.keep, self.every = directory, keep, every

    def steps(self) -> list[int]:
        """Returns the steps that have a checkpoint, oldest first."""
        numbers = [path.name.removeprefix("step-") for path in self.directory.glob("step-*") if path.is_dir()]
        # A copy that somebody made, such as `step-00000040.old`, does not count.
        return sorted(int(number) for number in numbers if re.fullmatch(r"[0-9]{8,}", number))

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint atomically, reads it back and deletes old ones.

        Raises OSError where it cannot be written; earlier checkpoints are then unchanged.
        """
        try:
            self._write(checkpoint)
        except OSError:
            self._delete_unfinished()  # it would take the space of the next attempt
            raise
        self.delete_old()

    def _write(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint atomically and reads it back."""
        path = self._path(checkpoint.step)
        temporary = self.directory / f"writing-{checkpoint.step}"
        self._delete_unfinished()
        temporary.mkdir(parents=True)
        write_tensors(checkpoint.weights, temporary / WEIGHTS)
        write_tensors(checkpoint.optimiser, temporary / OPTIMISER)
        (temporary / STATE).write_text(json.dumps({"step": checkpoint.step, **checkpoint.state}, indent=1), "utf-8")
        files = [temporary / name for name in (WEIGHTS, OPTIMISER, STATE)]
        (temporary / MANIFEST).write_text(json.dumps(checksums_of_files(files), indent=1), "utf-8")
        for written in (*files, temporary / MANIFEST, temporary):
            flush_to_disk(written)
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
        flush_to_disk(self.directory)
        if faults := self.find_damage(checkpoint.step):
            shutil.rmtree(path)
            raise OSError(errno.EIO, f"what was written is not what is read back: {'; '.join(faults)}", str(path))

    def load(self, step: int) -> Checkpoint:
        """Reads the checkpoint of `step`; raises DamagedError where it is damaged."""
        path = self._undamaged_path(step)
        state = migrate_state(json.loads(read_regular_file(path / STATE, MAX_JSON_BYTES)))
        return Checkpoint(state.pop("step"), load_file(path / WEIGHTS), load_file(path / OPTIMISER), state)

    def weights(self, step: int) -> dict[str, Tensor]:
        """Reads the weights of `step` alone; raises DamagedError where any file of the checkpoint is damaged."""
        weights: dict[str, Tensor] = load_file(self._undamaged_path(step) / WEIGHTS)
        return weights

    def load_newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """Reads the newest undamaged checkpoint; returns None where nothing was saved.

        Warns of newer, damaged checkpoints and renames them, so that they no longer belong to the run. Raises
        DamagedError where all checkpoints are damaged.
        """
        newest = None
        for step in reversed(self.steps()):
            try:
                newest = self.load(step)
                break
            except DamagedError as error:
                say(f"warning: {error}; going back to the checkpoint before it")
        self._set_aside([step for step in self.steps() if newest is None or step > newest.step])
        return newest

    def set_damaged_aside(self, say: Callable[[str], None]) -> None:
        """Warns of damaged checkpoints and renames them; raises DamagedError where all are damaged."""
        damaged = {step: faults for step in self.steps() if (faults := self.find_damage(step))}
        for step, faults in damaged.items():
            say(f"warning: {self._path(step)} is damaged: {'; '.join(faults)}; it is left out")
        self._set_aside(damaged)

    def _set_aside(self, damaged: Collection[int]) -> None:
        if damaged and len(damaged) == len(self.steps()):
            raise DamagedError(f"no checkpoint in {self.directory} is whole; begin anew with --restart (all is kept)")
        for step in damaged:
            self._path(step).rename(self._unused_path(f"damaged-{step:08d}"))

    def find_damage(self, step: int) -> list[str]:
        """Returns a sentence for each fault of the files of a checkpoint."""
        path = self._path(step)
        try:
            return find_damage(path, json.loads(read_regular_file(path / MANIFEST, MAX_JSON_BYTES)))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return [f"{MANIFEST} is missing or no manifest"]

    def delete_old(self) -> None:
        """Deletes unfinished checkpoints, and all but the newest and the newest `keep` of the schedule."""
        steps = self.steps()
        regular = [step for step in steps if step == steps[-1] or self._is_of_schedule(step)]
        for step in set(steps) - set(regular[-self.keep :]):
            shutil.rmtree(self._path(step))
        self._delete_unfinished()

    def _is_of_schedule(self, step: int) -> bool:
        """Returns whether the schedule, and not a stop, caused the checkpoint of `step`."""
        if self.every is not None:
            return step % self.every == 0
        try:
            state = json.loads(read_regular_file(self._path(step) / STATE, MAX_JSON_BYTES))
            return bool(state.get("is_due", True))
        except (OSError, ValueError, AttributeError):
            return True  # it is damaged, which `load_newest` reports

    def _delete_unfinished(self) -> None:
        """Deletes what an interrupted `save` has left."""
        for path in self.directory.glob("writing-*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()

    def _undamaged_path(self, step: int) -> Path:
        """Returns the path of a checkpoint; raises DamagedError where it is damaged."""
        if faults := self.find_damage(step):
            raise DamagedError(f"{self._path(step)} is damaged: {'; '.join(faults)}")
        return self._path(step)

    def _path(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def _unused_path(self, name: str) -> Path:
        """Returns the path of `name` in the folder, with a number where the name is taken."""
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(path for path in map(self.directory.joinpath, names) if not path.exists())
