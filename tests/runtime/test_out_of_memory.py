"""Errors of too little memory, and work that is repeated on halves."""

import pytest
import torch

from transduce.runtime.memory import is_out_of_memory, run_by_halves


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("NCCL error: unhandled cuda error: Cuda failure 2 'out of memory'"), True),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"), False),
    ],
)
def test_errors_of_too_little_memory_are_recognised(error, is_memory):
    assert is_out_of_memory(error) == is_memory


def refuse(*_arguments: object) -> list[int]:
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory")


def test_items_are_halved_until_they_fit() -> None:
    sizes = []

    def double(numbers):
        sizes.append(len(numbers))
        return refuse() if len(numbers) > 2 else [2 * number for number in numbers]

    assert run_by_halves(double, range(7)) == [0, 2, 4, 6, 8, 10, 12]
    assert sizes == [7, 3, 1, 2, 4, 2, 2]


def test_an_item_that_does_not_fit_alone_is_an_error_or_is_replaced() -> None:
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        run_by_halves(refuse, range(4))
    assert run_by_halves(refuse, range(4), lambda number: -number) == [0, -1, -2, -3]


def test_other_errors_are_raised_at_once() -> None:
    def fail(numbers):
        raise RuntimeError(f"ours, {len(numbers)}")

    with pytest.raises(RuntimeError, match="ours, 4"):
        run_by_halves(fail, range(4), lambda number: number)
