"""Functions shared by all benchmarks: timing, the rate of matrix multiplication, and the settings for a report."""

import statistics
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch


def bench_settings(
    what: str,
    data: str,
    device: torch.device,
    precision: str,
    runs: int,
    batch_tokens: int,
    details: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the settings of a benchmark for its report; `details` describes the model or the search."""
    return {
        "what": what,
        "data": data,
        "device": str(device),
        "threads": torch.get_num_threads(),
        "precision": precision,
        "torch": torch.__version__,
        "runs": runs,
        "batch_tokens": batch_tokens,
        "details": details,
    }


def median_seconds(call: Callable[[], Any], device: torch.device, runs: int, warm_up: int = 2) -> float:
    """Returns the median duration of `runs` calls in seconds, including device synchronisation.

    Before these calls, `call` is called `warm_up` times without being measured.
    """
    times = []
    for run in range(warm_up + runs):
        began = time.perf_counter()
        call()
        ended = synchronised_time(device)
        if run >= warm_up:
            times.append(ended - began)
    return statistics.median(times)


class StepTimer:
    """Measures the times between marks, without synchronising the device at each mark."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Marks the moment at which the device will have finished all work that is queued so far."""
        if self._device.type == "cuda":
            self._marks.append(torch.cuda.Event(enable_timing=True))
            self._marks[-1].record()
        else:
            self._marks.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Waits for the device, then returns the number of seconds from each mark to the next."""
        synchronised_time(self._device)
        if self._device.type == "cuda":
            return [before.elapsed_time(after) / 1000 for before, after in pairwise(self._marks)]
        return [after - before for before, after in pairwise(self._marks)]


def synchronised_time(device: torch.device) -> float:
    """Waits until the device has finished its work, then returns the current time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


MATRIX_SIZES = {"cpu": 2048, "cuda": 8192}  # on a GPU, large enough that the launch overhead is negligible


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Returns the rate of matrix multiplication in floating-point operations per second.

    The rate is computed from the median time of ten products of two square matrices.
    """
    size = MATRIX_SIZES[device.type]
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / median_seconds(lambda: left @ right, device, runs=10)
