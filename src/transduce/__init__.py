"""A machine-translation toolkit that implements the Transformer of "Attention Is All You Need".

It covers the whole pipeline: subword segmentation, training, beam search and evaluation with BLEU.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# GNU OpenMP reads this variable when torch is first imported. With this value, idle threads spin for some tens of
# microseconds, which is enough to bridge the gaps between the operations of a small model. By default, they spin a
# hundred times as long, and two runs that share two cores then take ten times as long.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")

# oneDNN caches its compiled int8 matrix multiplications for this many shapes. With the default capacity of 1,024, the
# memory in use grows by a gigabyte during translation. oneDNN reads the variable, or its older name, when it multiplies
# for the first time.
if "DNNL_PRIMITIVE_CACHE_CAPACITY" not in os.environ:
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "100")

__version__ = "0.1.0"

# Maps each public name to its module, which is imported at first use because importing torch takes a second.
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
