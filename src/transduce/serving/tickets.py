"""Tickets: each accepted request has one, with its deadline, and can be cancelled while it waits."""

import time
from concurrent.futures import Future, wait
from typing import TypeVar

from transduce.search import SearchStoppedError

__all__ = ["Ticket"]

TICK_SECONDS = 0.25  # within this time a waiting thread sees that its request was cancelled

Result = TypeVar("Result")


class Ticket:
    """A request that waits for sentences, at most `seconds` long. Threads share it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._reason: str | None = None
        self.client_has_left = False

    @property
    def is_live(self) -> bool:
        """Whether somebody still waits."""
        return self._reason is None and time.monotonic() < self._deadline

    def cancel(self, reason: str) -> None:
        """Ends the wait; `check` and `result` raise SearchStoppedError with `reason`."""
        self._reason = reason

    def client_leaves(self) -> None:
        """Ends the wait, because nobody is there any more."""
        self.client_has_left = True
        self.cancel("the client has left")

    def check(self) -> None:
        """Raises SearchStoppedError where nobody waits any more."""
        if self._reason is not None:
            raise SearchStoppedError(self._reason)
        if not self.is_live:
            raise SearchStoppedError(f"the translation did not end within {self._seconds:g} seconds")

    def result(self, future: "Future[Result]") -> Result:
        """Waits for the result of a future; raises SearchStoppedError at the deadline and after `cancel`."""
        is_done = False
        while not is_done:
            self.check()
            is_done = bool(wait([future], min(TICK_SECONDS, max(0.0, self._deadline - time.monotonic()))).done)
        try:
            return future.result()
        except SearchStoppedError:
            self.check()  # this request's reason, if it has one
            raise
