"""Checkpoints: all that a run needs to go on as if it had never stopped. Nothing in them is ever unpickled."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file, save_file
from torch import Tensor

from transduce.durable import flush

WEIGHTS, OPTIMISER, STATE = "model.safetensors", "optimiser.safetensors", "state.json"


class Checkpoint(NamedTuple):
    """One moment of a training."""

    step: int
    weights: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    state: dict[str, Any]  # position in the data, best score, patience, loss scale, environment …


class Checkpoints:
    """The checkpoints of one run, in a folder each; the newest `keep` stay.

    Those at multiples of `every` are the run's own; one at another step, written because the run was stopped there, is
    gone as soon as the next is written, so that stopping leaves no trace in what is averaged later.
    """

    def __init__(self, directory: Path, keep: int, every: int = 1) -> None:
        self.directory, self.keep, self.every = directory, keep, every

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first."""
        return sorted(int(path.name.removeprefix("step-")) for path in self.directory.glob("step-*") if path.is_dir())

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes aside, flushes to the disk, then renames: a checkpoint is there whole or not at all."""
        place = self._place(checkpoint.step)
        aside = self.directory / f"writing-{checkpoint.step}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        save_file(_contiguous(checkpoint.weights), aside / WEIGHTS)
        save_file(_contiguous(checkpoint.optimiser), aside / OPTIMISER)
        (aside / STATE).write_text(json.dumps({"step": checkpoint.step, **checkpoint.state}, indent=1), "utf-8")
        for path in (aside / WEIGHTS, aside / OPTIMISER, aside / STATE, aside):
            flush(path)
        if place.exists():
            shutil.rmtree(place)
        aside.rename(place)
        flush(self.directory)
        self.tidy()

    def load(self, step: int) -> Checkpoint:
        """The checkpoint of `step`."""
        place = self._place(step)
        state = json.loads((place / STATE).read_text("utf-8"))
        return Checkpoint(state.pop("step"), load_file(place / WEIGHTS), load_file(place / OPTIMISER), state)

    def weights(self, step: int) -> dict[str, Tensor]:
        """The weights of `step` alone."""
        weights: dict[str, Tensor] = load_file(self._place(step) / WEIGHTS)
        return weights

    def tidy(self) -> None:
        """Leaves the newest checkpoint and the newest of the run's own, and nothing of a write that was cut short."""
        steps = self.steps()
        regular = [step for step in steps if step % self.every == 0 or step == steps[-1]]
        for step in set(steps) - set(regular[-self.keep :]):
            shutil.rmtree(self._place(step))
        for path in self.directory.glob("writing-*"):
            shutil.rmtree(path)

    def _place(self, step: int) -> Path:
        return self.directory / f"step-{step:08d}"


def _contiguous(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as safetensors wants them: each with storage of its own."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
