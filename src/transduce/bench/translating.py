"""The speed of translating sentences with a trained model, or with a preset's random weights."""

import statistics
from collections.abc import Sequence
from typing import Any

import torch

from transduce.bench.measured import Settings, matrix_rate, peak_memory, waited
from transduce.translator import BATCH_TOKENS, Method, Translator

__all__ = ["bench_translating"]


def bench_translating(
    translator: Translator, lines: Sequence[str], name: str, runs: int, method: Method
) -> dict[str, Any]:
    """Translates `lines` once to warm up and `runs` times that count; medians, by the keys of `bench --json`."""
    device, times, words = translator.device, [], 0
    for number in range(runs + 1):
        began = waited(device)
        found = translator.translate(lines, method)
        if number:
            times.append(waited(device) - began)
            words = sum(len(best[0].words) + 1 for best in found)
    seconds = statistics.median(times)
    return {
        "tokens_per_second": words / seconds,
        "sentences_per_second": len(lines) / seconds,
        "milliseconds": {"whole": 1000 * seconds, "sentence": 1000 * seconds / len(lines)},
        "matrix_rate": matrix_rate(device, torch.float32),
        "share_of_peak": None,
        "peak_memory": peak_memory(device),
        "padding": None,
        "settings": Settings(
            what=name,
            data=f"{len(lines)} lines",
            device=str(device),
            threads=torch.get_num_threads(),
            precision=translator.precision,
            torch=torch.__version__,
            runs=runs,
            batch_tokens=BATCH_TOKENS,
        ).as_dictionary(),
    }
