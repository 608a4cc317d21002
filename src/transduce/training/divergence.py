"""Divergence: counts skipped steps, and decides when a run rolls back to its last checkpoint or gives up."""

from typing import NamedTuple

from transduce.training.loop import StepRecord
from transduce.training.precision import Precision

MAX_SKIPS_IN_A_ROW = 5  # after this many, the run rolls back to the weights of the last checkpoint
MAX_ROLLBACKS = 3  # after this many without a new checkpoint in between, the run has diverged


class DivergedError(RuntimeError):
    """The loss or its gradient is infinite or NaN on any data."""


class SkippedSteps(NamedTuple):
    """Counts of the steps of a run that were skipped because their gradient was not finite."""

    total: int = 0
    in_a_row: int = 0
    rollbacks: int = 0  # rollbacks since the last checkpoint was saved

    @property
    def needs_rollback(self) -> bool:
        """Whether `MAX_SKIPS_IN_A_ROW` steps in a row were skipped, so that the weights must be the cause."""
        return self.in_a_row >= MAX_SKIPS_IN_A_ROW

    def after_step(self, skipped: bool) -> "SkippedSteps":
        """Counts one more step."""
        return self._replace(total=self.total + skipped, in_a_row=self.in_a_row + 1 if skipped else 0)


class DivergenceDetector:
    """Finds skipped steps; on a GPU one step late, so that no step waits for the device."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._previous: StepRecord | None = None

    def find_skipped_step(self, record: StepRecord) -> StepRecord | None:
        """Returns the skipped step, or None if the step was not skipped; on a GPU it checks the step before `record`.

        A float16 step that lowers the loss scale does not count as skipped.
        """
        is_late = self._precision.device.type == "cuda" and self._precision.name != "float16"
        checked, self._previous = (self._previous, record) if is_late else (record, None)
        if checked is None or not checked.skipped or checked.can_lower_scale:
            return None
        return checked


def count_rollback(skips: SkippedSteps, record: StepRecord, saved: bool) -> SkippedSteps:
    """Counts one more rollback.

    Raises DivergedError if no checkpoint is `saved`, or if `MAX_ROLLBACKS` rollbacks have not helped.
    """
    if saved and skips.rollbacks < MAX_ROLLBACKS:
        return skips._replace(in_a_row=0, rollbacks=skips.rollbacks + 1)
    again = f"and again after {MAX_ROLLBACKS} returns to the last checkpoint"
    history = again if saved else "before there was a checkpoint"
    remedy = "`transduce train` goes on from the last checkpoint with --accept-changes and" if saved else "Try"
    raise DivergedError(
        f"training diverged at step {record.step}, {history}: loss {record.loss}, gradient norm "
        f"{record.gradient_norm}. {remedy} a lower rate (now {record.rate:.2e}) or a longer warm-up in "
        "`training.schedule`, `--set training.clip=1.0`, or in float16 `--set training.precision=float32`"
    )
