"""The training state: all that a run remembers besides weights and optimiser, as stored in `state.json`."""

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
    """The planned steps of a run with a time limit, for a schedule that reaches zero at the last step."""

    steps: int
    minutes: float
    plans: int  # made so far


class TrainingState(NamedTuple):
    """The state of a run after a step; only the trainer makes new states."""

    step: int = 0
    position: Position = Position()
    tokens: int = 0  # target tokens trained on, end symbols included
    elapsed: float = 0.0  # seconds of training, validating and saving, over all starts
    best: float | None = None  # the best validation score; higher is better
    best_step: int | None = None
    stale: int = 0  # validations since the best one
    validation_pending: bool = False  # the checkpoint was saved before the validation of its step
    log_bytes: int = 0  # length of `metrics.jsonl`
    skips: SkippedSteps = SkippedSteps()
    horizon: Horizon | None = None
    micro_batches: int = 1  # per step

    def after(self, record: StepRecord, skips: SkippedSteps) -> "TrainingState":
        """Advances the state by one step."""
        return self._replace(
            step=record.step, position=record.position, tokens=self.tokens + record.tokens, skips=skips
        )

    def after_validation(self, best: float | None) -> "TrainingState":
        """Records a validation; `best` is its score if it is the best so far, else None."""
        if best is None:
            return self._replace(validation_pending=False, stale=self.stale + 1)
        return self._replace(validation_pending=False, best=best, best_step=self.step, stale=0)

    def end_reason(self, settings: Training) -> str | None:
        """Returns why the run ends, as a sentence; None while steps, epochs, minutes and patience are left."""
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
        """Returns the number of steps planned for the minutes of `settings`; None for a schedule without an end.

        A plan that was made for other minutes is scaled.
        """
        if self.horizon is None or settings.minutes is None or not isinstance(settings.schedule, EndingSchedule):
            return None
        return round(self.horizon.steps * settings.minutes / self.horizon.minutes)


VERSION: Literal[1] = 1  # of `state.json`


class SavedState(Spec):
    """The content of `state.json`, besides the step."""

    model_config = ConfigDict(allow_inf_nan=True)  # a score is infinite if the loss is

    version: Literal[1]
    training: TrainingState
    loss_scale: tuple[float, int]  # the scale, and the steps since it was lowered
    environment: dict[str, Any]
    fingerprint: str  # of the training data
    subwords: dict[str, Any]  # checksums of the tokenizer files
    scored_by: list[Any]  # the measure of validations, and the checksum of their corpus
    parameters: list[Any]  # names and shapes, in their order
    is_due: bool  # whether the checkpoint was scheduled, and not saved because of a stop

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, place: str) -> "SavedState":
        """Validates the content of a `state.json`; raises ValueError, which names `place`, if it is not valid."""
        try:
            check_version(values, VERSION, place=place)
            return validated(cls, values, place=place)
        except ValueError as error:
            message = f"{error}\nMove that checkpoint away, or begin anew with --restart (what is there is kept)"
            raise ValueError(message) from None


class TrainingClock:
    """The seconds of a run over all its starts, and since its last checkpoint; stops do not count.

    All processes read it together. The time of the process that was stopped longest counts, because the others waited
    for it.
    """

    def __init__(self, elapsed: float, group: ProcessGroup = SINGLE_PROCESS) -> None:
        self._work, self._group = WorkTime(), group
        self._before, self._saved = elapsed, 0.0

    def read(self) -> tuple[float, float]:
        """Returns (seconds of training, seconds since the last checkpoint), the same in all processes."""
        seconds = self._work.seconds()
        minus_elapsed, minus_since_save = self._group.all_reduce_max(-self._before - seconds, self._saved - seconds)
        return -minus_elapsed, -minus_since_save

    def note_save(self) -> None:
        """Sets the seconds since the last checkpoint to zero."""
        self._saved = self._work.seconds()

    def close(self) -> None:
        """Stops the clock."""
        self._work.close()
