"""Steps that had to be skipped, and when a training has to go back: several in a row are a reason, one is none."""

from typing import NamedTuple

from transduce.training.loop import StepRecord
from transduce.training.precision import Precision

__all__ = ["DivergedError", "DivergenceDetector", "SkippedSteps", "count_rollback"]

TOLERATED = 5  # skipped steps in a row after which the weights are those of the last checkpoint again
RETURNS = 3  # that often, with no checkpoint saved in between


class DivergedError(RuntimeError):
    """The loss or its gradient is no longer a number, whatever data it is given."""


class SkippedSteps(NamedTuple):
    """What a run remembers of steps whose gradient was no number."""

    total: int = 0
    in_a_row: int = 0
    returns: int = 0  # to a checkpoint, since the last was saved

    @property
    def too_many(self) -> bool:
        """Whether so many were skipped in a row that the weights are to blame."""
        return self.in_a_row >= TOLERATED

    def noted(self, skipped: bool) -> "SkippedSteps":
        """After one more step."""
        return self._replace(total=self.total + skipped, in_a_row=self.in_a_row + 1 if skipped else 0)


class DivergenceDetector:
    """Looks at each step, on a GPU a step later, because there no step is waited for."""

    def __init__(self, precision: Precision) -> None:
        self._precision = precision
        self._before: StepRecord | None = None

    def skipped(self, record: StepRecord) -> StepRecord | None:
        """The step that was found to be skipped, if one was; float16 lowering its scale is no such step."""
        late = self._precision.device.type == "cuda" and self._precision.name != "float16"
        looked, self._before = (self._before, record) if late else (record, None)
        if looked is None or not looked.skipped or looked.lowers_scale:
            return None
        return looked


def count_rollback(skips: SkippedSteps, record: StepRecord, saved: bool) -> SkippedSteps:
    """After one more return to a checkpoint; a `DivergedError` where none is `saved`, or returning has not helped."""
    if saved and skips.returns < RETURNS:
        return skips._replace(in_a_row=0, returns=skips.returns + 1)
    why = f"and again after {RETURNS} returns to the last checkpoint" if saved else "before there was a checkpoint"
    unharmed = "The last checkpoint is unharmed. " if saved else ""
    raise DivergedError(
        f"training diverged at step {record.step}, {why}: loss {record.loss}, gradient norm {record.gradient_norm}. "
        f"{unharmed}Lower the learning rate (now {record.rate:.2e}), lengthen "
        "`training.schedule.warmup`, or set `training.clip: 1.0`"
    )
