"""The largest amount of memory that the process, or its GPU, has used."""

import importlib.util
import math
import sys

import torch

__all__ = ["peak_memory"]


def peak_memory(device: torch.device) -> float:
    """Returns the peak of allocated memory in bytes: of a GPU, else of the process; NaN where Windows has no count."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if importlib.util.find_spec("resource") is None:
        return math.nan
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
