"""Cancellation: ends a search without a result, at a deadline or when nobody is waiting for the result any longer."""

import time
from collections.abc import Callable
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState

StopCheck = Callable[[], None]
"""Raises SearchStoppedError if a search must stop; called before each step or each short group of steps."""


class SearchStoppedError(RuntimeError):
    """A search that was stopped before its end; it has no result."""


def stop_after(seconds: int | float) -> StopCheck:
    """Returns a check that stops searches `seconds` from now; raises ValueError unless `seconds` is positive."""
    if not seconds > 0:
        raise ValueError(f"a search cannot end within {seconds} seconds: give a number above 0")
    deadline = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() >= deadline:
            raise SearchStoppedError(f"the search did not end within {seconds:g} seconds")

    return check


class StoppableStepper:
    """Wraps a stepper and calls `check` before the source is encoded and before each step."""

    def __init__(self, inner: Stepper, check: StopCheck) -> None:
        self.inner, self.check = inner, check

    def start(
        self, source: Int[Tensor, "batch source"], visible: Bool[Tensor, "batch source"], max_length: int
    ) -> StepperState:
        """Calls the check, then starts the inner stepper."""
        self.check()
        state: StepperState = self.inner.start(source, visible, max_length)
        return state

    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Calls the check, then takes a step of the inner stepper."""
        self.check()
        return self.inner.step(tokens, state)
