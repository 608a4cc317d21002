"""Detects divergence: counts skipped steps, and decides when a run rolls back to a checkpoint or is aborted."""

from typing import NamedTuple

from transduce.training.loop import StepRecord
from transduce.training.precision import Precision

MAX_SKIPS_IN_A_ROW = 5  # after this many consecutive skipped steps, the run rolls back to its last checkpoint
MAX_ROLLBACKS = 3  # a run that needs more rollbacks than this without a new checkpoint in between has diverged


class DivergedError(RuntimeError):
    """Raised if the loss or its gradient remains infinite or NaN, even on different data."""


class SkippedSteps(NamedTuple):
    """Counts the steps of a run that were skipped because their gradient was infinite or NaN."""

    total: int = 0  # all skipped steps of the run
    in_a_row: int = 0  # consecutive skipped steps up to now
    rollbacks: int = 0  # rollbacks since the last checkpoint was saved

    @property
    def needs_rollback(self) -> bool:
        """Whether `MAX_SKIPS_IN_A_ROW` consecutive steps were skipped, in which case the weights must be the cause."""
        return self.in_a_row >= MAX_SKIPS_IN_A_ROW

    def after_step(self, skipped: bool) -> "SkippedSteps":
        """Returns the counts after one more step, which may have been `skipped`."""
        return self._replace(total=self.total + skipped, in_a_row=self.in_a_row + 1 if skipped else 0)


class DivergenceDetector:
    """Detects skipped steps.

    On a GPU, a skipped step is detected only after the next step, so that no step has to wait for the device.
    """

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._previous: StepRecord | None = None

    def find_skipped_step(self, record: StepRecord) -> StepRecord | None:
        """Checks the step of `record` or, on a GPU, the step before it.

        Returns the record of the checked step if that step was skipped, else None. In float16, a step that only lowers
        the loss scale does not count as skipped. Because the loss scale depends on every step, float16 steps are always
        checked immediately.
        """
        is_late = self._precision.device.type == "cuda" and self._precision.name != "float16"
        checked, self._previous = (self._previous, record) if is_late else (record, None)
        if checked is None or not checked.skipped or checked.can_lower_scale:
            return None
        return checked


def count_rollback(skips: SkippedSteps, record: StepRecord, saved: bool) -> SkippedSteps:
    """Returns the counts after one more rollback.

    Raises DivergedError if no checkpoint has been `saved`, or if `MAX_ROLLBACKS` rollbacks have already failed to help.
    """
    if saved and skips.rollbacks < MAX_ROLLBACKS:
        return skips._replace(in_a_row=0, rollbacks=skips.rollbacks + 1)
    again = f"and again after {MAX_ROLLBACKS} returns to the last checkpoint"
    history = again if saved else "before there was a checkpoint"
    remedy = "`transduce train` goes on from the last checkpoint with --accept-changes and" if saved else "Try"
    raise DivergedError(
        f"training diverged at step {record.step}, {history}: loss {record.loss}, gradient norm "
        f"{record.gradient_norm}. {remedy} a lower learning rate (now {record.rate:.2e}) or a longer warm-up in "
        "`training.schedule`, `--set training.clip=1.0`, or in float16 `--set training.precision=float32`"
    )
