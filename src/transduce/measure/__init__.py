"""Scores translations with standard metrics and tests differences between systems for significance.

This package does not require torch.
"""

import importlib
from typing import TYPE_CHECKING

__all__ = ["scores"]


def __getattr__(name: str) -> object:
    """Imports the public function when it is first used.

    The import is deferred because recipe settings only need the names of the metrics from this package.
    """
    if name in __all__:
        return getattr(importlib.import_module("transduce.measure.scoring"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if TYPE_CHECKING:
    from transduce.measure.scoring import scores
