"""Measures the speed of training steps on sentence pairs, with dropout and label smoothing."""

import statistics
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from transduce.bench.timing import StepTimer, bench_settings, matrix_rate
from transduce.corpus.store.preparation import prepare
from transduce.model.cross_entropy import Smoothing
from transduce.model.translation_model import Vocabulary, flops
from transduce.recipe.recipe import Recipe
from transduce.run.build import build_planner
from transduce.runtime.device import flush_subnormals, keep_freed_memory, use_deterministic_algorithms
from transduce.runtime.memory import peak_memory
from transduce.runtime.torch_compile import compile_on_gpu
from transduce.training.loop import training_steps
from transduce.training.memory_check import compile_shapes
from transduce.training.muon import flat_optimiser
from transduce.training.objective import TrainingObjective
from transduce.training.precision import Precision

WARM_UP = 3  # number of steps that are not measured


def bench_training(
    recipe: Recipe,
    name: str,
    device: torch.device,
    runs: int,
    vocabulary_size: int | None = None,
) -> dict[str, Any]:
    """Trains on `recipe` for a few warm-up steps and `runs` measured steps; returns the values of `bench --json`.

    Step times and waiting times are medians, whereas speeds are computed over all measured steps. The time for 25,000
    target tokens is included because a step in the paper has about 25,000 source and 25,000 target tokens (section
    5.1). `vocabulary_size` sets the number of rows of the embeddings and the softmax; raises ValueError if one side of
    the corpus has more subwords.
    """
    flush_subnormals()
    keep_freed_memory()
    use_deterministic_algorithms(device)
    training = recipe.training
    precision = Precision(training.precision, device)
    dtype = getattr(torch, precision.name)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(recipe.data, recipe.subwords, Path(folder), threads=2)
        largest = max(prepared.source.size, prepared.target.size)
        if vocabulary_size is not None and vocabulary_size < largest:
            raise ValueError(
                f"--vocabulary {vocabulary_size}: the text has {largest:,} subwords; ask for as many or more"
            )
        sizes = vocabulary_size or prepared.source.size, vocabulary_size or prepared.target.size
        vocabulary = Vocabulary(source=sizes[0], target=sizes[1])
        rate_before = matrix_rate(device, dtype)
        torch.manual_seed(training.seed)
        model = recipe.model.build(vocabulary).to(device)
        smoothing = Smoothing(epsilon=training.label_smoothing, over=training.label_smoothing_over)
        objective = TrainingObjective(model, smoothing, training.regulariser).train()
        planner = build_planner(prepared, training.replaced(batch_tokens=training.max_batch_tokens), device, model)
        optimiser = flat_optimiser(model, training.optimiser)
        if model.is_compilable:
            compile_on_gpu(model, device)
        if device.type == "cuda":
            compile_shapes(objective, optimiser, planner, precision)
        steps = training_steps(objective, optimiser, planner, training, precision)
        list(islice(steps, WARM_UP))
        timer, records = StepTimer(device), []
        timer.mark()
        for record in islice(steps, runs):
            timer.mark()
            records.append(record)
        planned = list(islice(planner.steps(), WARM_UP, WARM_UP + runs))
        step_seconds = timer.seconds()
    rate = (rate_before + matrix_rate(device, dtype)) / 2  # the mean, because the speed of a shared machine varies
    seconds, tokens = sum(step_seconds), sum(record.tokens for record in records)
    micro_batches = [micro_batch for step in planned for micro_batch in step.micro_batches]
    sentences = sum(len(micro_batch.source) for micro_batch in micro_batches)
    # EOS is counted, but padding is not.
    source_tokens = sum(int((micro_batch.source != 0).sum()) for micro_batch in micro_batches)
    target_tokens = sum(step.tokens for step in planned)
    source_flops, target_flops = flops(recipe.model, vocabulary, round(target_tokens / sentences))
    total_flops = 3 * (source_flops * source_tokens + target_flops * target_tokens)
    corpora = [corpus.model_dump(exclude={"weight", "languages"}, exclude_none=True) for corpus in recipe.data.train]
    return {
        "tokens_per_second": tokens / seconds,
        "sentences_per_second": sentences / seconds,
        "milliseconds": {
            "step": 1000 * statistics.median(step_seconds),
            "waiting": 1000 * statistics.median(record.waiting for record in records),
            "25,000 target tokens": 1000 * 25_000 * seconds / tokens,
        },
        "matrix_rate": rate,
        "share_of_peak": total_flops / seconds / rate,
        "peak_memory": peak_memory(device),
        "padding": planner.padding,
        "settings": bench_settings(
            name,
            data=" ".join(str(value) for corpus in corpora for value in corpus.values()),
            device=device,
            precision=precision.name,
            runs=runs,
            batch_tokens=training.max_batch_tokens,
            details={
                "vocabulary": vocabulary.target,
                "dropout": recipe.model.dropout,
                "label_smoothing": training.label_smoothing,
                "micro_batches": planner.micro_batches,
            },
        ),
    }
