"""Too little memory: recognises the errors of all libraries, and repeats work on halves of its items."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

__all__ = ["is_out_of_memory", "run_by_halves"]

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
    """Returns whether an error means too little memory, also where a library raises a plain RuntimeError."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(text in str(error) for text in MESSAGES)


def run_by_halves(
    work: Callable[[Sequence[Item]], Sequence[Result]],
    items: Sequence[Item],
    replace: Callable[[Item], Result] | None = None,
) -> list[Result]:
    """Returns the results of `work` on the items, or on their halves, recursively, where memory does not suffice.

    Where it does not suffice for one item, the result is that of `replace`; without `replace` the error is raised.
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
