"""Measures the speed of translation with a trained model."""

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from transduce.bench.timing import bench_settings, matrix_rate, synchronised_time
from transduce.runtime.memory import peak_memory
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import BATCH_TOKENS, Translator

MAX_SINGLE_LINES = 100  # largest number of lines that are also translated one by one


def bench_translating(
    translator: Translator,
    lines: Sequence[str],
    name: str,
    runs: int,
    method: SearchMethod,
    batch_tokens: int = BATCH_TOKENS,
) -> dict[str, Any]:
    """Translates `lines` once to warm up and then `runs` measured times; returns the values of `bench --json`.

    The speeds are computed from the median time of the measured runs. In addition, up to MAX_SINGLE_LINES lines are
    translated one by one, to measure the latency of a single sentence. Raises ValueError if all lines are blank.
    """
    if not any(line.strip() for line in lines):
        raise ValueError("there is nothing to translate: --data names a text without a word")
    engine = translator.torch_engine
    device, times, translations = engine.device, [], []
    for run in range(runs + 1):
        began = synchronised_time(device)
        translations = translator.translate_lines(lines, method, batch_tokens=batch_tokens)
        if run:
            times.append(synchronised_time(device) - began)
    seconds, lengths = statistics.median(times), [len(best[0].tokens) + 1 for best in translations]
    tokens = sum(lengths)
    # Some lines are translated alone, each in a batch of its own; the first line is translated once more to warm up.
    single_lines, single_seconds = lines[:: -(-len(lines) // MAX_SINGLE_LINES)], []
    translator.translate_lines(single_lines[:1], method)
    for line in single_lines:
        began = synchronised_time(device)
        translator.translate_lines([line], method)
        single_seconds.append(synchronised_time(device) - began)
    return {
        "tokens_per_second": tokens / seconds,
        "sentences_per_second": len(lines) / seconds,
        "milliseconds": {
            "whole": 1000 * seconds,
            "sentence": 1000 * seconds / len(lines),
            "alone, median": 1000 * float(np.percentile(single_seconds, 50)),
            "alone, 99 %": 1000 * float(np.percentile(single_seconds, 99)),
        },
        "lengths": {"mean": tokens / len(lines), "longest": max(lengths)},
        "matrix_rate": matrix_rate(device, torch.bfloat16 if engine.precision == "bfloat16" else torch.float32),
        "share_of_peak": None,
        "peak_memory": peak_memory(device),
        "padding": None,
        "settings": bench_settings(
            name,
            data=f"{len(lines)} lines",
            device=device,
            precision=engine.precision,
            runs=runs,
            batch_tokens=batch_tokens,
            details={"greedy": True} if method.greedy else method.decoding.as_dictionary(),
        ),
    }
