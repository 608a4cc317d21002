"""What every benchmark measures beside its own: the machine's matrix rate, and memory."""

import resource
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from transduce.settings import Spec

__all__ = ["Laps", "Settings", "matrix_rate", "median_seconds", "peak_memory", "waited"]


WIDTHS = {"cpu": 2048, "cuda": 8192}  # on a GPU so that the time of launching is nothing beside that of the product


class Settings(Spec):
    """What a benchmark ran with; printed with every result."""

    what: str
    data: str
    device: str
    threads: int
    precision: str
    torch: str
    runs: int
    batch_tokens: int
    details: dict[str, Any]  # of the model and its training, or of the search


def matrix_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of a product of two square matrices: the median of several."""
    size = WIDTHS[device.type]
    one, other = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / median_seconds(lambda: one @ other, device, runs=10)


def median_seconds(call: Callable[[], Any], device: torch.device, runs: int, warm_up: int = 2) -> float:
    """The median time of `call`, what it leaves to the device included."""
    times = []
    for run in range(warm_up + runs):
        began = time.perf_counter()
        call()
        waited(device)
        if run >= warm_up:
            times.append(time.perf_counter() - began)
    return statistics.median(times)


class Laps:
    """The times between moments at which the device comes to the same point, without waiting for it there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._moments: list[Any] = []

    def mark(self) -> None:
        """Here: after all that the device has been given."""
        if self._device.type == "cuda":
            self._moments.append(torch.cuda.Event(enable_timing=True))
            self._moments[-1].record()
        else:
            self._moments.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Between each mark and the next, once all are passed."""
        waited(self._device)
        if self._device.type == "cuda":
            return [before.elapsed_time(after) / 1000 for before, after in pairwise(self._moments)]
        return [after - before for before, after in pairwise(self._moments)]


def waited(device: torch.device) -> float:
    """The time, once the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def peak_memory(device: torch.device) -> int:
    """Bytes: the device's where it has memory of its own, else the process's."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
