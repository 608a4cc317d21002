"""A ramp of the step size: a run begins with small steps, and their size doubles until they are full-size."""

from pydantic import Field, model_validator

from transduce.settings import Spec


class BatchRamp(Spec):
    """Begins with steps of `start` tokens; the size doubles whenever a straight line to `end` reaches twice the size.

    A smaller step is a part of a planned step of `end` tokens, so plans, shapes and memory are the same as without a
    ramp. With `start: 1000, end: 4000, steps: 6` a full-size step has 4 parts of 1,000 tokens:

        step            1     2     3     4     5     6     7
        straight line   1.5   2     2.5   3     3.5   4     4      parts, (1 + 3 · step / 6)
        size            1     2     2     2     2     4     4      parts, the largest power of two up to the line

    Sizes are powers of two, and a step ends at a multiple of its size, so that steps end where planned steps end. The
    four parts of each planned step go to these steps; step 2 gets one part less than its size:

        |1 2 3 3|4 4 5 5|6 6 6 6|7 7 7 7|

    `whole_steps` and `steps_after` convert between steps and full-size steps by the sizes: steps 1 to 5 count as
    1 + 2 + 2 + 2 + 2 = 9 parts, or 2.25 full-size steps.
    """

    start: int = Field(ge=1, description="Most positions a side of the first steps, about.")
    end: int = Field(ge=1, description="Most positions a side after the ramp: `start` times 2, 4, 8 and so on.")
    steps: int = Field(ge=1, description="Steps after which a step has `end` positions.")

    @model_validator(mode="after")
    def _check_doublings(self) -> "BatchRamp":
        """Raises ValueError if `end` is not `start` doubled one or more times."""
        parts = self.end // self.start
        if parts < 2 or parts * self.start != self.end or parts.bit_count() > 1:
            raise ValueError(
                f"`end` is {self.end} and must be `start` doubled one or more times, such as {2 * self.start} or "
                f"{4 * self.start}"
            )
        return self

    @property
    def parts(self) -> int:
        """Number of first steps that make up one full-size step."""
        return self.end // self.start

    def parts_of(self, step: int) -> int:
        """Number of parts of a full-size step, a power of two, that `step` takes; steps count from 1."""
        reached = 1 + (self.parts - 1) * min(step, self.steps) // self.steps
        return 1 << (reached.bit_length() - 1)

    def whole_steps(self, step: int) -> float:
        """Returns the work of all steps up to `step`, in full-size steps."""
        done, before = 0, 0
        while before < step and (parts := self.parts_of(before + 1)) < self.parts:
            last = min(step, self._last_step_of(parts))
            done += (last - before) * parts
            before = last
        return done / self.parts + step - before

    def _last_step_of(self, parts: int) -> int:
        """The last step that takes this number of parts, which must be less than `self.parts`."""
        return -((1 - 2 * parts) * self.steps // (self.parts - 1)) - 1

    def steps_after(self, step: int, whole_steps: float) -> float:
        """Returns the step by which `whole_steps` full-size steps have been done since `step`.

        The result may be fractional.
        """
        left = whole_steps * self.parts
        while (parts := self.parts_of(step + 1)) < self.parts:
            last = self._last_step_of(parts)
            if (last - step) * parts >= left:
                break
            left -= (last - step) * parts
            step = last
        return step + left / parts
