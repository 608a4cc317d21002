"""The learning rate of each step (section 5.3).

A rate is a function of the step, of d_model and of the total number of steps. The first three schedules have no end and
ignore the total; the others reach zero at the last step.
"""

import math
from typing import Annotated, Literal

from pydantic import Field

from transduce.settings import Spec


class Paper(Spec):
    """d_model^−0.5 · min(step^−0.5, step · warmup^−1.5): equation 3."""

    kind: Literal["paper"] = "paper"
    warmup: int = Field(default=4000, ge=1, description="Steps until the highest rate.")

    def rate(self, step: int, d_model: int, total_steps: int | None = None) -> float:
        """Returns the learning rate of `step`, counted from 1; `total_steps` is ignored."""
        return d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5)


class InverseSquareRoot(Spec):
    """Linear warm-up to `peak`, then peak · √(warmup / step)."""

    kind: Literal["inverse_square_root"] = "inverse_square_root"
    warmup: int = Field(default=4000, ge=1, description="Steps until the highest rate.")
    peak: float = Field(default=5e-4, gt=0, description="Highest rate.")

    def rate(self, step: int, d_model: int, total_steps: int | None = None) -> float:
        """Returns the learning rate of `step`, counted from 1; `d_model` and `total_steps` are ignored."""
        return self.peak * min(step / self.warmup, (self.warmup / step) ** 0.5)


class Constant(Spec):
    """Linear warm-up to `peak`, then `peak`; the schedule for fine-tuning."""

    kind: Literal["constant"] = "constant"
    # 2 / (1 − β2), twice the time over which the paper's Adam averages squared gradients (Ma and Yarats 2021).
    warmup: int = Field(default=100, ge=1, description="Steps until the highest rate.")
    peak: float = Field(default=1e-4, gt=0, description="Highest rate.")

    def rate(self, step: int, d_model: int, total_steps: int | None = None) -> float:
        """Returns the learning rate of `step`, counted from 1; `d_model` and `total_steps` are ignored."""
        return self.peak * min(step / self.warmup, 1.0)


class EndingSchedule(Spec):
    """Linear warm-up to `peak`, then a decay that reaches zero at the last step of the training.

    A warm-up of more than half of the steps is shortened to half of them.
    """

    warmup: int = Field(default=4000, ge=1, description="Steps until the highest rate, at most half of all.")
    peak: float = Field(default=5e-4, gt=0, description="Highest rate.")

    def rate(self, step: int, d_model: int, total_steps: int | None) -> float:
        """Returns the learning rate of `step`, counted from 1; `d_model` is ignored.

        While `total_steps` is None, because it is not known yet, the rate stays at the peak after the warm-up.
        """
        warmup = self.warmup if total_steps is None else max(1, min(self.warmup, total_steps // 2))
        if step <= warmup or total_steps is None:
            return self.peak * min(step / warmup, 1.0)
        return self.peak * self.decayed(min((step - warmup) / max(1, total_steps - warmup), 1.0))

    def decayed(self, progress: float) -> float:
        """Returns the rate as a fraction of the peak.

        `progress` is the fraction of the steps after the warm-up that are done.
        """
        raise NotImplementedError


class LinearDecay(EndingSchedule):
    """Linear warm-up to `peak`, then a straight line to zero at the last step of the training."""

    kind: Literal["linear"] = "linear"

    def decayed(self, progress: float) -> float:
        """See `EndingSchedule.decayed`."""
        return 1 - progress


class CosineDecay(EndingSchedule):
    """Linear warm-up to `peak`, then half a wave of a cosine (Loshchilov and Hutter 2017) to zero at the last step."""

    kind: Literal["cosine"] = "cosine"

    def decayed(self, progress: float) -> float:
        """See `EndingSchedule.decayed`."""
        return (1 + math.cos(math.pi * progress)) / 2


class WarmupStableDecay(EndingSchedule):
    """Linear warm-up to `peak`, a constant rate (Hu et al. 2024), and a decay as 1 − √progress (Hägele et al. 2024)."""

    kind: Literal["wsd"] = "wsd"
    decay: float = Field(
        default=0.2, gt=0, le=1, description="Share of the steps after the warm-up in which the rate falls to zero."
    )

    def decayed(self, progress: float) -> float:
        """See `EndingSchedule.decayed`."""
        return 1 - max(0.0, (progress - 1 + self.decay) / self.decay) ** 0.5


ScheduleSpec = Annotated[
    Paper | InverseSquareRoot | Constant | LinearDecay | CosineDecay | WarmupStableDecay, Field(discriminator="kind")
]
