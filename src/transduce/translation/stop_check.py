"""Translators whose searches stop at a deadline, or when nobody waits for the result."""

import copy
from typing import TypeVar

from transduce.search import SearchStoppedError, StopCheck, StoppableStepper, stop_after
from transduce.translation.line_translator import LineTranslator

__all__ = ["SearchStoppedError", "StopCheck", "stop_after", "with_stop_check"]

AnyTranslator = TypeVar("AnyTranslator", bound=LineTranslator)


def with_stop_check(translator: AnyTranslator, check: StopCheck) -> AnyTranslator:
    """Returns a translator with the same models that calls `check` between the steps of each search.

    Where `check` raises SearchStoppedError, so does the method that translates or scores. Other translators of the
    same models are not affected.
    """
    checking = copy.copy(translator)
    checking.stepper = StoppableStepper(translator.stepper, check)
    return checking
