"""Learning rate schedules, including the one in section 5.3 of the paper.

A schedule computes the learning rate from the step, d_model and the total number of steps of the run. `Paper`,
`InverseSquareRoot` and `Constant` do not depend on the total; all other schedules decay to zero at the last step.
"""

import math
from typing import Annotated, Literal

from pydantic import Field

from transduce.settings import Spec


class Paper(Spec):
    """The schedule of the paper, d_model^−0.5 · min(step^−0.5, step · warmup^−1.5) (equation 3)."""

    kind: Literal["paper"] = "paper"
    warmup: int = Field(default=4000, ge=1, description="Number of warm-up steps, after which the learning rate falls.")

    def rate(self, step: int, d_model: int, total_steps: int | None = None) -> float:
        """Returns the learning rate of `step`, counted from 1; `total_steps` is ignored."""
        return d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5)


class InverseSquareRoot(Spec):
    """Linear warm-up to `peak`, followed by an inverse square root decay, peak · √(warmup / step)."""

    kind: Literal["inverse_square_root"] = "inverse_square_root"
    warmup: int = Field(default=4000, ge=1, description="Number of warm-up steps.")
    peak: float = Field(default=5e-4, gt=0, description="Peak learning rate.")

    def rate(self, step: int, d_model: int, total_steps: int | None = None) -> float:
        """Returns the learning rate of `step`, counted from 1; `d_model` and `total_steps` are ignored."""
        return self.peak * min(step / self.warmup, (self.warmup / step) ** 0.5)


class Constant(Spec):
    """Linear warm-up to `peak`, followed by a constant learning rate; this is the schedule for fine-tuning."""

    kind: Literal["constant"] = "constant"
    # The default is 2 / (1 − β2) for the paper's β2, twice the number of steps over which Adam averages squared
    # gradients, as Ma and Yarats (2021) recommend.
    warmup: int = Field(default=100, ge=1, description="Number of warm-up steps.")
    peak: float = Field(default=1e-4, gt=0, description="Peak learning rate.")

    def rate(self, step: int, d_model: int, total_steps: int | None = None) -> float:
        """Returns the learning rate of `step`, counted from 1; `d_model` and `total_steps` are ignored."""
        return self.peak * min(step / self.warmup, 1.0)


class EndingSchedule(Spec):
    """Base class of schedules with a linear warm-up to `peak`, followed by a decay to zero at the last step.

    If the warm-up is longer than half of the run, it is shortened to half of the run.
    """

    warmup: int = Field(default=4000, ge=1, description="Number of warm-up steps, at most half of the run.")
    peak: float = Field(default=5e-4, gt=0, description="Peak learning rate.")

    def rate(self, step: int, d_model: int, total_steps: int | None) -> float:
        """Returns the learning rate of `step`, counted from 1; `d_model` is ignored.

        If `total_steps` is None, because the number is not known yet, the learning rate stays at its peak after the
        warm-up.
        """
        warmup = self.warmup if total_steps is None else max(1, min(self.warmup, total_steps // 2))
        if step <= warmup or total_steps is None:
            return self.peak * min(step / warmup, 1.0)
        return self.peak * self.decayed(min((step - warmup) / max(1, total_steps - warmup), 1.0))

    def decayed(self, progress: float) -> float:
        """Returns the learning rate as a fraction of the peak.

        `progress` is the number of steps done since the warm-up, as a fraction of all steps after the warm-up.
        """
        raise NotImplementedError


class LinearDecay(EndingSchedule):
    """Linear warm-up to `peak`, followed by a linear decay to zero at the last step."""

    kind: Literal["linear"] = "linear"

    def decayed(self, progress: float) -> float:
        """See `EndingSchedule.decayed`."""
        return 1 - progress


class CosineDecay(EndingSchedule):
    """Linear warm-up to `peak`, followed by a cosine decay to zero at the last step (Loshchilov and Hutter 2017)."""

    kind: Literal["cosine"] = "cosine"

    def decayed(self, progress: float) -> float:
        """See `EndingSchedule.decayed`."""
        return (1 + math.cos(math.pi * progress)) / 2


class WarmupStableDecay(EndingSchedule):
    """Linear warm-up to `peak`, a constant phase, and a final decay to zero (Hu et al. 2024).

    During the decay, the learning rate is proportional to 1 − √progress, where progress goes from 0 to 1 (Hägele et al.
    2024).
    """

    kind: Literal["wsd"] = "wsd"
    decay: float = Field(
        default=0.2,
        gt=0,
        le=1,
        description="Fraction of the steps after the warm-up in which the learning rate decays to zero.",
    )

    def decayed(self, progress: float) -> float:
        """See `EndingSchedule.decayed`."""
        return 1 - max(0.0, (progress - 1 + self.decay) / self.decay) ** 0.5


ScheduleSpec = Annotated[
    Paper | InverseSquareRoot | Constant | LinearDecay | CosineDecay | WarmupStableDecay, Field(discriminator="kind")
]
