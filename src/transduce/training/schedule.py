"""The learning rate of each step (section 5.3)."""

from typing import Annotated, Literal

from pydantic import Field

from transduce.settings import Spec


class Paper(Spec):
    """d_model^−0.5 · min(step^−0.5, step · warmup^−1.5): equation 3."""

    kind: Literal["paper"] = "paper"
    warmup: int = Field(default=4000, ge=1, description="Steps until the highest rate.")

    def rate(self, step: int, d_model: int) -> float:
        """Returns the rate of `step`, counted from 1."""
        return d_model**-0.5 * min(step**-0.5, step * self.warmup**-1.5)


class InverseSquareRoot(Spec):
    """Linear warm-up to `peak`, then peak · √(warmup / step)."""

    kind: Literal["inverse_square_root"] = "inverse_square_root"
    warmup: int = Field(default=4000, ge=1, description="Steps until the highest rate.")
    peak: float = Field(default=5e-4, gt=0, description="Highest rate.")

    def rate(self, step: int, d_model: int) -> float:
        """Returns the rate of `step`, counted from 1; `d_model` is ignored."""
        return self.peak * min(step / self.warmup, (self.warmup / step) ** 0.5)


class Constant(Spec):
    """Linear warm-up to `peak`, then `peak`; the schedule of a fine-tuning."""

    kind: Literal["constant"] = "constant"
    # Twice the memory of the paper's mean of squared gradients, 2 / (1 − β2) (Ma and Yarats 2021).
    warmup: int = Field(default=100, ge=1, description="Steps until the highest rate.")
    peak: float = Field(default=1e-4, gt=0, description="Highest rate.")

    def rate(self, step: int, d_model: int) -> float:
        """Returns the rate of `step`, counted from 1; `d_model` is ignored."""
        return self.peak * min(step / self.warmup, 1.0)


ScheduleSpec = Annotated[Paper | InverseSquareRoot | Constant, Field(discriminator="kind")]
