"""Memory: recognises out-of-memory errors, repeats work on halves of its items, and measures the peak."""

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

MESSAGES = (
    "can't allocate memory",  # torch on a CPU
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "CUDA error: out of memory",
    "Cuda failure 2 'out of memory'",  # NCCL
    "Failed to CUDA calloc",  # NCCL
)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means that memory ran out, even if a library raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in MESSAGES)


def run_by_halves(
    work: Callable[[Sequence[Item]], Sequence[Result]],
    items: Sequence[Item],
    replace: Callable[[Item], Result] | None = None,
) -> list[Result]:
    """Returns the results of `work` on the items; if memory runs out, works on their halves, recursively.

    If memory runs out for a single item, `replace` supplies the result; without `replace`, the error is raised.
    """
    try:
        return list(work(items))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or (len(items) == 1 and replace is None):
            raise
    # Outside of the handler, because the error keeps the tensors of the failed work in memory.
    if len(items) == 1:
        assert replace is not None
        return [replace(items[0])]
    middle = len(items) // 2
    return run_by_halves(work, items[:middle], replace) + run_by_halves(work, items[middle:], replace)


def peak_memory(device: torch.device) -> float:
    """Peak of allocated memory in bytes, on a GPU or else in the process; NaN on Windows, which does not count it."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if importlib.util.find_spec("resource") is None:
        return math.nan
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
