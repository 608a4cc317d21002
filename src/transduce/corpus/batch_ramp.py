"""A ramp of the size of steps: a run begins with small steps, whose size doubles until they are whole."""

from pydantic import Field, model_validator

from transduce.settings import Spec


class BatchRamp(Spec):
    """Steps of `start` tokens at first; their size doubles where a straight line to `end` has reached the double.

    A step of fewer tokens is a part of a planned step of `end` tokens, so that plans, shapes and memory are those of
    `end`. With `start: 1000, end: 4000, steps: 6` a whole step has 4 parts of 1,000 tokens:

        step            1     2     3     4     5     6     7
        straight line   1.5   2     2.5   3     3.5   4     4      parts, (1 + 3 · step / 6)
        size            1     2     2     2     2     4     4      parts, the largest power of two up to the line

    Sizes are powers of two, and a step ends at a multiple of its size, so that steps end where planned steps end. The
    four parts of each planned step go to these steps; step 2 has one part less than its size:

        |1 2 3 3|4 4 5 5|6 6 6 6|7 7 7 7|

    `whole_steps` and `steps_after` convert between steps and whole steps by the sizes: steps 1 to 5 count as
    1 + 2 + 2 + 2 + 2 = 9 parts, 2.25 whole steps.
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
        """The number of first steps that make a whole step."""
        return self.end // self.start

    def parts_of(self, step: int) -> int:
        """Returns the number of parts, a power of two, that `step` has of a whole step; steps count from 1."""
        reached = 1 + (self.parts - 1) * min(step, self.steps) // self.steps
        return 1 << (reached.bit_length() - 1)

    def whole_steps(self, step: int) -> float:
        """Returns the work of all steps up to `step`, in whole steps."""
        done, before = 0, 0
        while before < step and (parts := self.parts_of(before + 1)) < self.parts:
            last = min(step, self._last_step_of(parts))
            done += (last - before) * parts
            before = last
        return done / self.parts + step - before

    def _last_step_of(self, parts: int) -> int:
        """Returns the last step with this number of parts; `parts` is less than `self.parts`."""
        return -((1 - 2 * parts) * self.steps // (self.parts - 1)) - 1

    def steps_after(self, step: int, whole_steps: float) -> float:
        """Returns after how many steps the training has done `whole_steps` whole steps more than after `step`."""
        left = whole_steps * self.parts
        while (parts := self.parts_of(step + 1)) < self.parts:
            last = self._last_step_of(parts)
            if (last - step) * parts >= left:
                break
            left -= (last - step) * parts
            step = last
        return step + left / parts
