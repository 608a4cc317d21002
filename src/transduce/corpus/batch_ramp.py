"""A ramp for the batch size: a run begins with small batches, and their size doubles until they are full-size."""

from pydantic import Field, model_validator

from transduce.settings import Spec


class BatchRamp(Spec):
    """Increases the batch size from `start` to `end` tokens during the first `steps` steps, by doubling it repeatedly.

    The size doubles whenever a straight line from `start` to `end` reaches twice the current size. A smaller step is a
    part of a planned step of `end` tokens, so plans, shapes and memory use are the same as without a ramp. For example,
    with `start: 1000, end: 4000, steps: 6`, a full-size step has 4 parts of 1,000 tokens:

        step            1     2     3     4     5     6     7
        straight line   1.5   2     2.5   3     3.5   4     4      parts, (1 + 3 · step / 6)
        size            1     2     2     2     2     4     4      parts, the largest power of two up to the line

    Sizes are powers of two, and every step ends at a multiple of its size, so that no step extends beyond the end of a
    planned step. The following diagram shows four planned steps with four parts each. The digits are the steps that
    take the parts. Step 2 takes one part fewer than its size, so that it ends at a multiple of it:

        |1 2 3 3|4 4 5 5|6 6 6 6|7 7 7 7|

    `whole_steps` and `steps_after` convert between steps and full-size steps. They use the sizes in the table, so steps
    1 to 5 count as 1 + 2 + 2 + 2 + 2 = 9 parts, or 2.25 full-size steps.
    """

    start: int = Field(ge=1, description="Approximate maximum number of tokens per side in the first step.")
    end: int = Field(
        ge=1, description="Maximum number of tokens per side after the ramp: `start` times 2, 4, 8 and so on."
    )
    steps: int = Field(ge=1, description="Number of steps after which batches have `end` tokens.")

    @model_validator(mode="after")
    def _check_doublings(self) -> "BatchRamp":
        """Raises ValueError unless `end` is `start` doubled one or more times."""
        parts = self.end // self.start
        if parts < 2 or parts * self.start != self.end or parts.bit_count() > 1:
            raise ValueError(
                f"`end` is {self.end} and must be `start` doubled one or more times, such as {2 * self.start} or "
                f"{4 * self.start}"
            )
        return self

    @property
    def parts(self) -> int:
        """The number of parts in a full-size step. The first step takes one part."""
        return self.end // self.start

    def parts_of(self, step: int) -> int:
        """Returns the size of a step in parts, which is a power of two. Steps are counted from 1."""
        reached = 1 + (self.parts - 1) * min(step, self.steps) // self.steps
        return 1 << (reached.bit_length() - 1)

    def whole_steps(self, step: int) -> float:
        """Returns the total size of all steps up to and including `step`, in full-size steps."""
        done, before = 0, 0
        while before < step and (parts := self.parts_of(before + 1)) < self.parts:
            last = min(step, self._last_step_of(parts))
            done += (last - before) * parts
            before = last
        return done / self.parts + step - before

    def _last_step_of(self, parts: int) -> int:
        """Returns the last step with this number of parts, which must be less than `self.parts`."""
        return -((1 - 2 * parts) * self.steps // (self.parts - 1)) - 1

    def steps_after(self, step: int, whole_steps: float) -> float:
        """Returns the step at which the equivalent of `whole_steps` full-size steps has been completed, from `step` on.

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
