"""The training state of a run, which checkpoints store in `state.json`, and the clock that measures training time.

The training state is everything that a resumed run needs in addition to the weights and the optimiser's state.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict

from transduce.corpus.planner import Position
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.runtime.progress import WorkTime
from transduce.settings import Spec, check_version, validated
from transduce.training.divergence import SkippedSteps
from transduce.training.loop import StepRecord
from transduce.training.schedule import EndingSchedule
from transduce.training.training_settings import Training


class Horizon(NamedTuple):
    """A plan of the total number of steps of a run with a time limit; see `transduce.run.horizon`."""

    steps: int  # total number of steps of the run
    minutes: float  # time limit for which the steps were planned
    plans: int  # number of plans made so far, this one included


class TrainingState(NamedTuple):
    """The state of a run after a training step."""

    step: int = 0
    position: Position = Position()  # where the next step begins in the data
    tokens: int = 0  # number of target tokens trained on, including EOS
    elapsed: float = 0.0  # seconds of training, validating and saving, including the time before the run was resumed
    best: float | None = None  # the best validation score so far; higher is better
    best_step: int | None = None  # the step of the best validation score
    stale: int = 0  # number of validations since the best one
    validation_pending: bool = False  # True if the validation of this step is due but has not been done yet
    log_bytes: int = 0  # length of `metrics.jsonl` in bytes
    skips: SkippedSteps = SkippedSteps()
    horizon: Horizon | None = None  # the current plan of a run with a time limit
    micro_batches: int = 1  # number of micro-batches per step

    def after(self, record: StepRecord, skips: SkippedSteps) -> "TrainingState":
        """Returns the state after the step of `record`."""
        return self._replace(
            step=record.step, position=record.position, tokens=self.tokens + record.tokens, skips=skips
        )

    def after_validation(self, best: float | None) -> "TrainingState":
        """Returns the state after a validation; `best` is its score if that is the best so far, else None."""
        if best is None:
            return self._replace(validation_pending=False, stale=self.stale + 1)
        return self._replace(validation_pending=False, best=best, best_step=self.step, stale=0)

    def end_reason(self, settings: Training) -> str | None:
        """Returns the reason why the run ends after this step, as a sentence, or None if it continues.

        A run ends as soon as it reaches its limit of steps, epochs or minutes, or runs out of patience.
        """
        if settings.steps is not None and self.step >= settings.steps:
            return f"{self.step} steps are done"
        if settings.epochs is not None and self.position.epoch >= settings.epochs:
            epochs = "1 epoch is" if self.position.epoch == 1 else f"{self.position.epoch} epochs are"
            return f"{epochs} done, after {self.step} steps"
        planned = self.planned_steps(settings)
        if planned is not None and self.step >= planned:
            return f"the rate has reached zero, after {self.step} steps"
        if settings.minutes is not None and self.elapsed >= 60 * settings.minutes:
            of_planned = "" if planned is None else f" of {planned} planned"
            return f"{settings.minutes:g} minutes are over, after {self.step}{of_planned} steps"
        if settings.patience is not None and self.stale >= settings.patience:
            return f"no better validation since step {self.best_step}"
        return None

    def planned_steps(self, settings: Training) -> int | None:
        """Returns the total number of steps according to the current plan.

        If the time limit has been changed since the plan was made, the number of steps is scaled accordingly. Returns
        None if there is no plan, or if the time limit or the schedule in `settings` no longer requires one.
        """
        if self.horizon is None or settings.minutes is None or not isinstance(settings.schedule, EndingSchedule):
            return None
        return round(self.horizon.steps * settings.minutes / self.horizon.minutes)


VERSION: Literal[1] = 1  # version of the format of `state.json`


class SavedState(Spec):
    """The content of `state.json`, except for the step number."""

    model_config = ConfigDict(allow_inf_nan=True)  # the best score is infinite if the validation loss is

    version: Literal[1]
    training: TrainingState
    loss_scale: tuple[float, int]  # the loss scale, and the number of steps since it was last lowered
    environment: dict[str, Any]
    fingerprint: str  # fingerprint of the training data
    subwords: dict[str, Any]  # checksums of the tokenizer files
    scored_by: list[Any]  # the metric that scores validations, and the checksum of the validation corpus
    parameters: list[Any]  # name and shape of each parameter, in the order of the optimiser's vectors
    is_due: bool  # True if the checkpoint was scheduled, False if it was saved because the run was stopped

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, place: str) -> "SavedState":
        """Validates the content of a `state.json` file; raises ValueError if it is invalid.

        `place` is the name of the file in the error message.
        """
        try:
            check_version(values, VERSION, place=place)
            return validated(cls, values, place=place)
        except ValueError as error:
            message = f"{error}\nMove that checkpoint away, or begin anew with --restart (what is there is kept)"
            raise ValueError(message) from None


class TrainingClock:
    """Measures the time that a run has spent in training, in total and since its last checkpoint.

    The total includes the time before the run was resumed. Time during which a process was stopped, for example by
    SIGSTOP, does not count. All processes must read the clock together, and all get the time of the process that was
    stopped for the longest time, because the others were waiting for it.
    """

    def __init__(self, elapsed: float, group: ProcessGroup = SINGLE_PROCESS) -> None:
        self._work, self._group = WorkTime(), group
        self._before, self._saved = elapsed, 0.0

    def read(self) -> tuple[float, float]:
        """Returns the total seconds of training and the seconds since the last checkpoint, equal on all processes."""
        seconds = self._work.seconds()
        minus_elapsed, minus_since_save = self._group.all_reduce_max(-self._before - seconds, self._saved - seconds)
        return -minus_elapsed, -minus_since_save

    def note_save(self) -> None:
        """Resets the time since the last checkpoint to zero."""
        self._saved = self._work.seconds()

    def close(self) -> None:
        """Stops the clock."""
        self._work.close()
