"""transduce: the Transformer of "Attention Is All You Need", from text to subwords, training, search and BLEU."""

import importlib
import os
from typing import TYPE_CHECKING, Any

# GNU OpenMP reads this variable when torch is first imported. Spinning for some tens of microseconds bridges the gaps
# between the operations of a small model. The default spins a hundred times as long, and two runs side by side on two
# cores then take ten times as long.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")

# oneDNN keeps the int8 products of this many shapes. With its default of 1,024, memory grows by a gigabyte during
# translation. The variable, or its older name, is read at the first product.
if "DNNL_PRIMITIVE_CACHE_CAPACITY" not in os.environ:
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "100")

__version__ = "0.1.0"

# The modules of the public names, imported at first use because importing torch takes a second.
_MODULES = {
    "Decoding": "transduce.search.beam",
    "Recipe": "transduce.recipe.recipe",
    "Translation": "transduce.translation.results",
    "Translator": "transduce.translation.translator",
    "train": "transduce.run.train",
}

__all__ = ["Decoding", "Recipe", "Translation", "Translator", "train"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if TYPE_CHECKING:
    from transduce.recipe.recipe import Recipe
    from transduce.run.train import train
    from transduce.search.beam import Decoding
    from transduce.translation.results import Translation
    from transduce.translation.translator import Translator
