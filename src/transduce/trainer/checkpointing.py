"""The checkpoints of a run: when one is due, what each remembers, and going on from the newest."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from transduce.runtime.distributed import ProcessGroup
from transduce.storage.checksums import Checksums
from transduce.trainer.checkpoints import Checkpoint, Checkpoints
from transduce.trainer.metrics_log import MetricsLog
from transduce.trainer.training_state import TrainingState
from transduce.training import Optimiser, Precision, StepRecord, Training

__all__ = ["Checkpointer", "TrainingEnvironment"]

RETRY = 10  # steps until a checkpoint that could not be written is tried again


class TrainingEnvironment(NamedTuple):
    """What a run is made under, as its checkpoints remember it."""

    environment: dict[str, Any]  # what the bits depend on
    fingerprint: str  # of the training data
    subwords: Checksums  # the files that say what each id stands for
    judge: list[Any]  # by which measure, on which corpus, validations are compared

    def warning(self, before: Mapping[str, Any]) -> str | None:
        """What to say where this machine, and so the bits, differ from those of before; None where they do not."""
        changed = [
            f"{name} was {before[name]} and is {value}"
            for name, value in self.environment.items()
            if name in before and before[name] != value
        ]
        if not changed:
            return None
        return f"warning: {'; '.join(changed)}: the run goes on, with bits that differ from an undisturbed one's"


class Checkpointer:
    """Saves a run and goes back to what was saved; all processes call it, the first keeps the files."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        training: Training,
        optimiser: Optimiser,
        precision: Precision,
        circumstances: TrainingEnvironment,
        journal: MetricsLog,
        group: ProcessGroup,
    ) -> None:
        self._checkpoints, self._training, self._group = checkpoints, training, group
        self._optimiser, self._precision, self._journal = optimiser, precision, journal
        self._circumstances = circumstances
        self._retry: int | None = None  # the step after which a checkpoint that failed is tried again

    def is_due(self, progress: TrainingState, since: float, record: StepRecord) -> bool:
        """Every so many steps or, `since` the last, seconds, as the recipe says; later where that was no moment."""
        steps, seconds = self._training.save_steps, self._training.save_seconds
        if steps is not None:
            due = progress.step % steps == 0 or progress.step == self._retry
        else:
            due = since >= (seconds or 0) and progress.step >= (self._retry or 0)
        if not due:
            return False
        # To weights that diverge nobody should go back; on a GPU `progress` does not know of this step's yet.
        if progress.skips.in_a_row or (record.skipped and not self._precision.lowering):
            self._retry = progress.step + 1
            return False
        return True

    def save(self, progress: TrainingState, weights: Mapping[str, Tensor]) -> TrainingState:
        """Writes a checkpoint, and gives what it remembers; an `OSError` where it cannot be written."""
        self._journal.report()
        progress = progress._replace(skips=progress.skips._replace(returns=0))
        loss_scale, optimiser = [self._precision.scale, self._precision.steady], self._optimiser.state()

        def saved() -> int:
            size = self._journal.settle()
            state = {**progress._replace(journal=size)._asdict(), "loss_scale": loss_scale}
            state |= self._circumstances._asdict()
            self._checkpoints.save(Checkpoint(progress.step, dict(weights), optimiser, state))
            return size

        size = self._group.on_rank_zero(saved)  # whatever fails on the disk fails in all processes
        self._retry = None
        return progress._replace(journal=size)

    def failed(self, step: int, error: OSError) -> None:
        """Says that step's checkpoint could not be written; it is due again soon."""
        self._retry = step + RETRY
        kept = self._checkpoints.steps()
        last = f"the last is of step {kept[-1]}" if kept else "there is none yet"
        self._journal.happened(step, f"could not save: {error}; {last}; trying again after step {self._retry}")

    def restored(self) -> dict[str, Any] | None:
        """The state of the newest checkpoint, whose weights and moments are the run's again; None if there is none."""
        found: list[Checkpoint] = []

        def taken() -> dict[str, Any] | None:
            checkpoint = self._checkpoints.newest(self._journal.say)
            if checkpoint is None:
                return None
            self._check_data(checkpoint.state)
            self._checkpoints.tidy()
            found.append(checkpoint)
            return {**checkpoint.state, "step": checkpoint.step}

        state = self._group.on_rank_zero(taken)
        if state is not None:
            self._optimiser.load_weights(found[0].weights if found else {})
            self._optimiser.load_state(found[0].optimiser if found else {})
        return state

    def resumed(self) -> TrainingState | None:
        """Goes back to the newest checkpoint; None where there is none.

        A `ValueError` where the training data is not what it was.
        """
        state = self.restored()
        if state is None:
            return None
        if warning := self._circumstances.warning(state["environment"]):
            self._journal.say(warning)
        self._precision.scale, self._precision.steady = state["loss_scale"]
        progress = TrainingState.read(state["step"], state)
        self._journal.say(f"going on after step {progress.step}")
        if state.get("judge") != self._circumstances.judge:
            if progress.best is not None:
                self._journal.say("validations have another measure or corpus from here on: the best is sought anew")
            progress = progress._replace(best=None, best_step=None, stale=0)
        return progress

    def _check_data(self, state: Mapping[str, Any]) -> None:
        """A `ValueError` where the subwords or the pairs are not those that the weights were trained on."""
        now = self._circumstances
        if state["fingerprint"] != now.fingerprint or state.get("subwords", now.subwords) != now.subwords:
            raise ValueError(
                f"the training data of {self._checkpoints.directory.parent} has changed since the run was begun, or it "
                "was begun with another --from; train into another directory, or begin anew with --restart (what is "
                "there is kept)"
            )
