"""Imports the libraries of document formats, which are an extra."""

import importlib
from types import ModuleType

__all__ = ["import_library"]


def import_library(name: str, documents: str) -> ModuleType:
    """Returns the module `name`, which reads `documents`; raises ValueError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"{documents} is read by {name}: pip install 'transduce[documents]'") from None
