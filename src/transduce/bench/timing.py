"""What all benchmarks share: timing, the rate of plain matrix multiplication, and the settings that a report names."""

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
    """Settings of a benchmark, for its report; `details` describe the model or the search."""
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
    """Median seconds of `call`, including device synchronisation; the first `warm_up` calls do not count."""
    times = []
    for run in range(warm_up + runs):
        began = time.perf_counter()
        call()
        ended = synchronised_time(device)
        if run >= warm_up:
            times.append(ended - began)
    return statistics.median(times)


class StepTimer:
    """Measures the times between marks without device synchronisation at the marks."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: list[Any] = []

    def mark(self) -> None:
        """Marks the moment at which the device has finished all work that is queued now."""
        if self._device.type == "cuda":
            self._marks.append(torch.cuda.Event(enable_timing=True))
            self._marks[-1].record()
        else:
            self._marks.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Waits for the device and returns the seconds from each mark to the next."""
        synchronised_time(self._device)
        if self._device.type == "cuda":
            return [before.elapsed_time(after) / 1000 for before, after in pairwise(self._marks)]
        return [after - before for before, after in pairwise(self._marks)]


def synchronised_time(device: torch.device) -> float:
    """Synchronises the device; returns the time in seconds."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


MATRIX_SIZES = {"cpu": 2048, "cuda": 8192}  # large enough on a GPU that the time of the launch is negligible


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second when multiplying two square matrices, the median of ten multiplications."""
    size = MATRIX_SIZES[device.type]
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / median_seconds(lambda: left @ right, device, runs=10)
