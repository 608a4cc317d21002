"""Reads and writes the checkpoints of a run, and decides when they are saved.

A checkpoint contains everything that a run needs to resume and to end with bit-identical weights. It is a folder with a
manifest of checksums. `Checkpoints` writes it under a temporary name, flushes it to disk, renames it and reads it back
before an older checkpoint is deleted. Tensors are stored in the safetensors format, so that loading a checkpoint never
unpickles data.

A checkpoint whose content does not match its manifest is damaged, and is never loaded; the run falls back to the one
before it. If a checkpoint cannot be read at all, OSError is raised instead, because the cause may be temporary, for
example a disk that is not mounted.
"""

import errno
import json
import logging
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from transduce.run.metrics_log import MetricsLog
from transduce.run.training_state import VERSION, SavedState, TrainingState
from transduce.runtime.distributed import ProcessGroup
from transduce.settings import parse_json
from transduce.storage.atomic import flush_to_disk, write_tensors
from transduce.storage.checksums import Checksums, checksums_of_files, find_damage
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file, remove
from transduce.training.loop import StepRecord
from transduce.training.optimiser import Optimiser
from transduce.training.precision import Precision
from transduce.training.training_settings import Training

_log = logging.getLogger("transduce")

WEIGHTS, OPTIMISER, STATE, MANIFEST = "model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"


# Name of a file next to the checkpoints, which records whether the run has ever saved one. It contains `NOT_YET` until
# the first checkpoint is saved, and it remains even if all checkpoints are moved away.
SAVED, NOT_YET = "checkpoint-saved", "not yet\n"


def saved_steps(directory: Path) -> list[int]:
    """Returns the steps of the checkpoints in `directory`, in ascending order."""
    suffixes = [path.name.removeprefix("step-") for path in directory.glob("step-*") if path.is_dir()]
    # Copies that a user has made, for example `step-00000040.old`, are ignored.
    return sorted(int(suffix) for suffix in suffixes if re.fullmatch(r"[0-9]{8,}", suffix))


class DamagedError(ValueError):
    """Raised if the files of a checkpoint do not match its manifest, or cannot be parsed."""


class Checkpoint(NamedTuple):
    """The content of a checkpoint: the state of a run after a training step."""

    step: int
    weights: dict[str, Tensor]  # on the CPU; each tensor is contiguous and has its own storage
    optimiser: dict[str, Tensor]  # the state of the optimiser
    state: dict[str, Any]  # everything else: position in the data, best score, loss scale, environment and so on


class Checkpoints:
    """The checkpoints in one directory, each of which is a folder of its own.

    After each `save`, at most `keep` checkpoints remain: the newest one, and the latest scheduled ones. A checkpoint is
    scheduled if its step is a multiple of `every`. If `every` is None, because checkpoints are saved at time intervals,
    a checkpoint is scheduled if its state has `is_due` set. All other checkpoints were saved because the run was
    stopped. They are deleted when the next checkpoint is saved, so that stopping a run does not change which
    checkpoints are averaged.
    """

    def __init__(self, directory: Path, keep: int = 1, every: int | None = 1) -> None:
        self.directory, self.keep, self.every = directory, keep, every
        self._undeletable: set[str] = set()  # folders that could not be deleted, and for which a warning was logged

    def steps(self) -> list[int]:
        """Returns the steps that have a checkpoint, in ascending order."""
        return saved_steps(self.directory)

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint atomically, reads it back to verify it, and deletes checkpoints that are not kept.

        Raises OSError if the checkpoint cannot be written; earlier checkpoints are then unchanged.
        """
        try:
            self._write(checkpoint)
        except OSError:
            self._delete_unfinished()  # frees the disk space for the next attempt
            raise
        self.delete_old()

    def _write(self, checkpoint: Checkpoint) -> None:
        self._delete_unfinished()
        temporary = self._unused_path(f"writing-{checkpoint.step}")
        temporary.mkdir(parents=True)
        write_tensors(checkpoint.weights, temporary / WEIGHTS)
        write_tensors(checkpoint.optimiser, temporary / OPTIMISER)
        (temporary / STATE).write_text(
            json.dumps({"step": checkpoint.step, **checkpoint.state}, indent=1), "utf-8", newline="\n"
        )
        files = [temporary / name for name in (WEIGHTS, OPTIMISER, STATE)]
        (temporary / MANIFEST).write_text(json.dumps(checksums_of_files(files), indent=1), "utf-8", newline="\n")
        for written in (*files, temporary / MANIFEST, temporary):
            flush_to_disk(written)
        self._put_in_place(temporary, checkpoint.step)

    def _put_in_place(self, written: Path, step: int) -> None:
        """Renames the checkpoint in `written` to its final name, and reads it back to verify it.

        If that fails, an earlier checkpoint of the same step, if there is one, is restored, and OSError is raised.
        """
        path, earlier = self._path(step), self._unused_path(f"replaced-{step:08d}")
        if path.exists():
            path.rename(earlier)
        try:
            written.rename(path)
            flush_to_disk(self.directory)
            if faults := self.find_damage(step):
                raise OSError(errno.EIO, f"what was written is not what is read back: {'; '.join(faults)}", str(path))
        except OSError:
            if path.exists():
                path.rename(written)
            if earlier.exists():
                earlier.rename(path)
            raise
        if earlier.exists():
            earlier.rename(self._unused_path(f"deleting-{step:08d}"))
        with suppress(OSError):
            (self.directory / SAVED).write_text("yes\n", "utf-8", newline="\n")
        self._delete_unfinished()

    def restore_replaced(self) -> None:
        """Restores the earlier checkpoint of a step if `save` was interrupted while replacing it with a new one."""
        for replaced in self.directory.glob("replaced-*"):
            number = replaced.name.removeprefix("replaced-")
            path = self.directory / f"step-{number}"
            replaced.rename(self._unused_path(f"deleting-{number}") if path.exists() else path)

    def load(self, step: int) -> Checkpoint:
        """Reads the checkpoint of `step` and returns it; raises DamagedError if it is damaged."""
        path = self._undamaged_path(step)
        state = _json_values(path / STATE)
        if not isinstance(state, dict) or state.pop("step", None) != step:
            raise DamagedError(f"{path / STATE} is not the state of step {step}")
        return Checkpoint(step, _tensors(path / WEIGHTS), _tensors(path / OPTIMISER), state)

    def weights(self, step: int) -> dict[str, Tensor]:
        """Reads only the weights of the checkpoint of `step` and returns them.

        Raises DamagedError if any file of the checkpoint is damaged.
        """
        return _tensors(self._undamaged_path(step) / WEIGHTS)

    def load_newest(self) -> Checkpoint | None:
        """Reads the newest undamaged checkpoint and returns it, or None if there are no checkpoints.

        Any checkpoints that are newer than the returned one are damaged. A warning is logged for each of them, and they
        are renamed, so that they no longer belong to the run. Raises DamagedError if all checkpoints are damaged, and
        OSError if a checkpoint cannot be read.
        """
        self.restore_replaced()
        newest = None
        for step in reversed(self.steps()):
            try:
                newest = self.load(step)
                break
            except DamagedError as error:
                _log.warning(f"warning: {error}; going back to the checkpoint before it")
        self._set_aside([step for step in self.steps() if newest is None or step > newest.step])
        return newest

    def set_damaged_aside(self) -> None:
        """Renames all damaged checkpoints, with a warning for each, so that they no longer belong to the run.

        Raises DamagedError if all checkpoints are damaged.
        """
        damaged = {step: faults for step in self.steps() if (faults := self.find_damage(step))}
        for step, faults in damaged.items():
            _log.warning(f"warning: {self._path(step)} is damaged: {'; '.join(faults)}; it is left out")
        self._set_aside(damaged)

    def _set_aside(self, damaged: Collection[int]) -> None:
        if damaged and len(damaged) == len(self.steps()):
            raise DamagedError(f"no checkpoint in {self.directory} is whole; begin anew with --restart (all is kept)")
        for step in damaged:
            self._path(step).rename(self._unused_path(f"damaged-{step:08d}"))

    def find_damage(self, step: int) -> list[str]:
        """Checks the files of the checkpoint of `step`, and returns one sentence for each fault found.

        Raises OSError if the files cannot be read.
        """
        path = self._path(step)
        try:
            manifest = _json_values(path / MANIFEST) if (path / MANIFEST).is_file() else None
            if not isinstance(manifest, dict) or not manifest.keys() >= {WEIGHTS, OPTIMISER, STATE}:
                return [f"{MANIFEST} is missing or no manifest"]
            return find_damage(path, manifest)
        except (ValueError, TypeError, KeyError):
            return [f"{MANIFEST} is not a manifest"]
        except FileNotFoundError as error:  # the file was deleted while the checkpoint was being checked
            return [f"{Path(error.filename).name} is missing"]
        except OSError as error:
            message = f"{error.strerror}: the checkpoint cannot be read and is unchanged; try again, or move it away"
            raise OSError(error.errno, message, str(error.filename or path)) from None

    def kept_steps(self) -> list[int]:
        """Returns the steps of the checkpoints to keep, in ascending order.

        These are the newest checkpoint and the latest scheduled ones, at most `keep` in total.
        """
        steps = self.steps()
        return [step for step in steps if step == steps[-1] or self._is_of_schedule(step)][-self.keep :]

    def delete_old(self) -> None:
        """Deletes unfinished checkpoints and all checkpoints that are not kept.

        Logs a warning for each folder that cannot be deleted.
        """
        for step in set(self.steps()) - set(self.kept_steps()):
            path = self._path(step)
            try:  # the folder is renamed first, so that a half-deleted checkpoint is never mistaken for a valid one
                path.rename(self._unused_path(f"deleting-{step:08d}"))
            except OSError as error:
                self._warn_undeletable(path, error)
        self._delete_unfinished()

    def _is_of_schedule(self, step: int) -> bool:
        """Returns True if the checkpoint of `step` is a scheduled one, False if it was saved when the run stopped."""
        if self.every is not None:
            return step % self.every == 0
        try:
            return bool(_json_values(self._path(step) / STATE).get("is_due", True))
        except (OSError, ValueError, AttributeError):
            return True  # the checkpoint is damaged or unreadable, which `load_newest` will report

    def _delete_unfinished(self) -> None:
        """Deletes the folders that an interrupted `save` or an interrupted deletion has left behind."""
        for path in (*self.directory.glob("writing-*"), *self.directory.glob("deleting-*")):
            try:
                remove(path)
            except OSError as error:
                self._warn_undeletable(path, error)

    def _warn_undeletable(self, path: Path, error: OSError) -> None:
        """Logs a warning that a folder could not be deleted, once per folder.

        A folder cannot be deleted, for example, if it contains an immutable file.
        """
        if path.name not in self._undeletable:
            self._undeletable.add(path.name)
            _log.warning(
                f"warning: could not delete {path}: {error.strerror}; the training goes on; delete it yourself"
            )

    def _undamaged_path(self, step: int) -> Path:
        """Returns the path of a checkpoint; raises DamagedError if it is damaged."""
        if faults := self.find_damage(step):
            raise DamagedError(f"{self._path(step)} is damaged: {'; '.join(faults)}")
        return self._path(step)

    def state_path(self, step: int) -> Path:
        """Returns the path of the state file of a checkpoint, for use in messages."""
        return self._path(step) / STATE

    def _path(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"

    def _unused_path(self, name: str) -> Path:
        """Returns a path in the directory with the name `name`, or with a number appended if that name is taken."""
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(path for path in map(self.directory.joinpath, names) if not path.exists())


def _json_values(path: Path) -> Any:
    """Reads a JSON file and returns its value; raises DamagedError if it is not valid JSON."""
    try:
        return parse_json(read_regular_file(path, MAX_JSON_BYTES), place=str(path))
    except ValueError as error:
        raise DamagedError(str(error)) from None


def _tensors(path: Path) -> dict[str, Tensor]:
    """Reads the tensors of a safetensors file; raises DamagedError if it cannot be parsed."""
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:  # raised for invalid headers
        raise DamagedError(f"{path} holds no tensors ({error})") from None
    return tensors


RETRY = 10  # number of steps after which a checkpoint that could not be written is tried again


class TrainingEnvironment(NamedTuple):
    """Everything on which the result of a run depends, apart from its recipe; it is recorded in every checkpoint."""

    environment: dict[str, Any]  # the hardware and software on which bit-identical weights depend
    fingerprint: str  # fingerprint of the training data
    subwords: Checksums  # checksums of the tokenizer files
    scored_by: list[Any]  # the metric that scores validations, and the checksum of the validation corpus

    def warning(self, before: Mapping[str, Any]) -> str | None:
        """Returns the text of a warning if the environment differs from that in `before`, else None."""
        changed = [
            f"{name} was {before[name]} and is {value}"
            for name, value in self.environment.items()
            if name in before and before[name] != value
        ]
        if not changed:
            return None
        return f"warning: {'; '.join(changed)}: the weights will not be bit-identical to an uninterrupted training's"


class Checkpointer:
    """Saves and loads the weights, the optimiser's state and the training state of a run.

    All processes call its methods together, but only rank 0 accesses the files.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        settings: Training,
        optimiser: Optimiser,
        precision: Precision,
        group: ProcessGroup,
    ) -> None:
        self._checkpoints, self._settings, self._group = checkpoints, settings, group
        self._optimiser, self._precision = optimiser, precision
        self._retry_step: int | None = None  # the step after which to retry a checkpoint that was not written

    def is_due(self, state: TrainingState, since: float, record: StepRecord) -> bool:
        """Returns True if a checkpoint is to be saved after the step of `record`.

        `since` is the time in seconds since the last checkpoint. If the step was skipped, its checkpoint is postponed,
        because the weights may be diverging.
        """
        steps, seconds = self._settings.save_steps, self._settings.save_seconds
        if steps is not None:
            due = state.step % steps == 0 or state.step == self._retry_step
        else:
            due = since >= (seconds or 0) and state.step >= (self._retry_step or 0)
        if not due:
            return False
        # The record is checked as well, because on a GPU `state` does not include a skip of this step yet.
        if state.skips.in_a_row or (record.skipped and not record.can_lower_scale):
            self._retry_step = state.step + 1
            return False
        return True

    def save(
        self,
        state: TrainingState,
        weights: Mapping[str, Tensor],
        environment: TrainingEnvironment,
        log: MetricsLog,
        *,
        is_due: bool,
    ) -> TrainingState:
        """Writes a checkpoint, and returns the training state that it contains.

        `is_due` is True for a scheduled checkpoint, and False for one that is saved because the run is stopped; the
        latter is not averaged. Raises OSError on all processes if the checkpoint cannot be written.
        """
        log.report()
        state = state._replace(skips=state.skips._replace(rollbacks=0))
        optimiser = self._optimiser.state()
        extra = {
            "version": VERSION,
            "loss_scale": [self._precision.scale, self._precision.finite_steps],
            "parameters": self._optimiser.layout.parameter_shapes(),
            "is_due": is_due,
            **environment._asdict(),
        }

        def write() -> int:
            size = log.flush()
            saved = {**extra, "training": state._replace(log_bytes=size)._asdict()}
            self._checkpoints.save(Checkpoint(state.step, dict(weights), optimiser, saved))
            return size

        size = self._group.on_rank_zero(write)
        self._retry_step = None
        return state._replace(log_bytes=size)

    def log_failure(self, step: int, error: OSError, log: MetricsLog) -> None:
        """Logs that the checkpoint of `step` could not be written, and schedules another attempt."""
        self._retry_step = step + RETRY
        saved_steps = self._checkpoints.steps()
        last = f"the last is of step {saved_steps[-1]}" if saved_steps else "there is none yet"
        log.log_event(step, f"could not save: {error}; {last}; trying again after step {self._retry_step}")

    def resume_place(self, state: TrainingState) -> str:
        """Returns a phrase that says where the run will resume if it stops now, for use in messages."""
        if not state.skips.in_a_row:
            return "there"
        # No checkpoint is written right after skipped steps, because the weights may be diverging.
        return "its last checkpoint" if self._checkpoints.steps() else "the beginning"

    def load_newest(self, environment: TrainingEnvironment) -> SavedState | None:
        """Loads the weights and the optimiser's state from the newest undamaged checkpoint.

        Returns the saved state of the run, or None if there is no checkpoint. Raises ValueError if the checkpoint
        belongs to different training data, different subwords or a different model, and OSError if it cannot be read.
        """
        loaded: list[Checkpoint] = []

        def read() -> SavedState | None:
            checkpoint = self._checkpoints.load_newest()
            if checkpoint is None:
                return None
            place = str(self._checkpoints.state_path(checkpoint.step))
            saved = SavedState.parse(checkpoint.state, place=place)
            if saved.fingerprint != environment.fingerprint or saved.subwords != environment.subwords:
                raise ValueError(
                    f"the training data of {self._checkpoints.directory.parent} has changed since the run was begun, "
                    "or it was begun with another --from; train into another directory, or begin anew with --restart "
                    "(what is there is kept)"
                )
            self._optimiser.layout.check_parameter_shapes(saved.parameters)
            self._optimiser.layout.check_weights(checkpoint.weights)
            self._optimiser.check_state(checkpoint.optimiser)
            self._checkpoints.delete_old()
            loaded.append(checkpoint)
            return saved

        saved = self._group.on_rank_zero(read)
        self._retry_step = None
        if saved is not None:
            self._optimiser.load_weights(loaded[0].weights if loaded else {})
            self._optimiser.load_state(loaded[0].optimiser if loaded else {})
        return saved

    def resume(self, environment: TrainingEnvironment) -> TrainingState | None:
        """Loads the newest checkpoint and returns its training state, or None if there is no checkpoint.

        Also restores the loss scale, and discards the best validation score if validations are now scored by a
        different metric or on a different corpus. Raises the same errors as `load_newest`.
        """
        saved = self.load_newest(environment)
        if saved is None:
            return None
        if (warning := environment.warning(saved.environment)) and self._group.is_rank_zero:
            _log.warning(warning)
        if saved.environment.get("precision") == self._precision.name:
            self._precision.scale, self._precision.finite_steps = saved.loss_scale
        state = saved.training
        _log.info(f"going on after step {state.step}")
        if saved.scored_by != environment.scored_by:
            if state.best is not None:
                _log.info("validations have another measure or corpus from here on: the best score is forgotten")
            state = state._replace(best=None, best_step=None, stale=0)
        return state
