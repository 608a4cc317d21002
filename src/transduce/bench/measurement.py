"""Measurements of all benchmarks."""

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from transduce.settings import Spec

__all__ = ["BenchSettings", "StepTimer", "median_seconds", "synchronised_time"]


class BenchSettings(Spec):
    """The settings of a benchmark, printed with its result."""

    what: str
    data: str
    device: str
    threads: int
    precision: str
    torch: str
    runs: int
    batch_tokens: int
    details: dict[str, Any]  # of the model and its training, or of the search


def median_seconds(call: Callable[[], Any], device: torch.device, runs: int, warm_up: int = 2) -> float:
    """Returns the median time of `call`, device synchronisation included; the first `warm_up` calls do not count."""
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
    """Returns the time in seconds after device synchronisation."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
