"""Scores texts by the field's metrics, and tests significance; does not need torch."""

import importlib
from typing import TYPE_CHECKING

__all__ = ["scores"]


def __getattr__(name: str) -> object:
    """Imports the public function at its first use, because recipe settings read names of metrics here."""
    if name in __all__:
        return getattr(importlib.import_module("transduce.measure.scoring"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if TYPE_CHECKING:
    from transduce.measure.scoring import scores
