"""The speed of training steps on real sentences, dropout and smoothing on."""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from transduce.bench.measured import Settings, matrix_rate, peak_memory, waited
from transduce.corpus import Planned, Planner, prepare
from transduce.describe import flops
from transduce.machine import keep_pages, repeat_bits
from transduce.model import Vocabulary
from transduce.model.readout import Smoothing
from transduce.recipe import Recipe
from transduce.training import FlatAdam, LabelSmoothing, Precision, training_steps

__all__ = ["bench_training"]


def bench_training(
    recipe: Recipe, name: str, device: torch.device, runs: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Trains `recipe` for a few steps to warm up and `runs` more that count; medians, by the keys of `bench --json`."""
    keep_pages()
    repeat_bits()
    training = recipe.training
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(recipe.data, recipe.subwords, Path(folder), threads=2, say=say)
        torch.manual_seed(training.seed)
        vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
        model = recipe.model.build(vocabulary).to(device)
        smoothing = Smoothing(epsilon=training.label_smoothing, over=training.label_smoothing_over)
        objective = LabelSmoothing(model, smoothing).train()
        planner = Planner(
            prepared.train, batch_tokens=training.batch_tokens, pieces=training.pieces, seed=training.seed
        )
        precision = Precision(training.precision, device)
        steps = training_steps(objective, FlatAdam(model, training.optimiser), planner, training, precision)
        records, seconds = [], []
        for number in range(runs + 3):
            began = waited(device)
            record = next(steps)
            if number >= 3:
                records.append(record)
                seconds.append(waited(device) - began)
        counted = [planned for planned, _ in zip(planner.steps(), range(runs + 3))][3:]
    dtype = torch.float32 if precision.name == "float32" else getattr(torch, precision.name)
    rate = matrix_rate(device, dtype)
    read, written = flops(recipe.model, vocabulary)
    work = sum(3 * (read * _source_words(planned) + written * planned.words) for planned in counted)
    words, total = sum(record.words for record in records), sum(seconds)
    return {
        "tokens_per_second": words / total,
        "sentences_per_second": sum(len(piece.source) for planned in counted for piece in planned.pieces) / total,
        "milliseconds": {
            "step": 1000 * statistics.median(seconds),
            "waiting": 1000 * statistics.median(record.waiting for record in records),
        },
        "matrix_rate": rate,
        "share_of_peak": work / total / rate,
        "peak_memory": peak_memory(device),
        "padding": planner.padding,
        "settings": Settings(
            what=name,
            data=" ".join(path for path in _names(recipe)),
            device=str(device),
            threads=torch.get_num_threads(),
            precision=precision.name,
            torch=torch.__version__,
            runs=runs,
            batch_tokens=training.batch_tokens,
        ).as_dictionary(),
    }


def _source_words(planned: Planned) -> int:
    """Source words of a step, ends included, padding not."""
    return sum(int((piece.source != 0).sum()) for piece in planned.pieces)


def _names(recipe: Recipe) -> list[str]:
    """What the recipe trains on, by name."""
    return [str(value) for corpus in recipe.data.train for value in corpus.as_dictionary().values() if value != 1.0]
