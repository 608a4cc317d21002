"""Cancellation of a search, at a deadline or when nobody is waiting for its result any longer."""

import time
from collections.abc import Callable
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.stepper import Stepper, StepperState

StopCheck = Callable[[], None]
"""A function that raises SearchStoppedError if the search must stop.

It is called before each step, or before each short group of steps.
"""


class SearchStoppedError(RuntimeError):
    """Raised when a search is stopped before its end; such a search has no result."""


def stop_after(seconds: int | float) -> StopCheck:
    """Returns a check that stops a search `seconds` from now.

    Raises ValueError if `seconds` is not positive.
    """
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
        """Calls `check`, then starts the inner stepper."""
        self.check()
        state: StepperState = self.inner.start(source, visible, max_length)
        return state

    def step(self, tokens: Int[Tensor, "rows new"], state: Any) -> tuple[Float[Tensor, "rows new vocabulary"], Any]:
        """Calls `check`, then performs a step of the inner stepper."""
        self.check()
        return self.inner.step(tokens, state)
