"""Recognises out-of-memory errors, splits work that needs too much memory, and measures peak memory use."""

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
    """Returns True if `error` means that memory has run out, even if a library has raised it as a RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in MESSAGES)


def run_by_halves(
    work: Callable[[Sequence[Item]], Sequence[Result]],
    items: Sequence[Item],
    replace: Callable[[Item], Result] | None = None,
) -> list[Result]:
    """Calls `work` on the items and returns the results; if memory runs out, calls it on each half of them instead.

    Halves that are still too large are halved again. If memory runs out for a single item, its result is that of
    `replace`; if there is no `replace`, the error is raised.
    """
    try:
        return list(work(items))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or (len(items) == 1 and replace is None):
            raise
    # The work is repeated outside the handler, because the exception keeps the tensors of the failed call in memory.
    if len(items) == 1:
        assert replace is not None
        return [replace(items[0])]
    middle = len(items) // 2
    return run_by_halves(work, items[:middle], replace) + run_by_halves(work, items[middle:], replace)


def peak_memory(device: torch.device) -> float:
    """Returns the peak memory use in bytes: of PyTorch on a GPU, and of the whole process on a CPU.

    Returns NaN for a CPU on Windows, where the peak is not available.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if importlib.util.find_spec("resource") is None:
        return math.nan
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
