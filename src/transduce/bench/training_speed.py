"""The speed of training steps on sentence pairs, with dropout and label smoothing."""

import statistics
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transduce.bench.timing import StepTimer, bench_settings, matrix_rate
from transduce.corpus.planner import PlannedStep
from transduce.corpus.store.preparation import PreparedCorpus, prepare
from transduce.model.cross_entropy import Smoothing
from transduce.model.translation_model import Vocabulary, flops
from transduce.recipe.recipe import Recipe
from transduce.run.build import build_planner
from transduce.runtime.device import flush_subnormals, keep_freed_memory, use_deterministic_algorithms
from transduce.runtime.memory import peak_memory
from transduce.runtime.torch_compile import compile_on_gpu
from transduce.training.loop import StepRecord, training_steps
from transduce.training.memory_check import compile_shapes
from transduce.training.muon import flat_optimiser
from transduce.training.objective import TrainingObjective
from transduce.training.precision import Precision

WARM_UP = 3  # steps that do not count


class TimedSteps(NamedTuple):
    """The steps that count: their records, plans and times, and the padding of the corpus."""

    records: list[StepRecord]
    planned: list[PlannedStep]
    seconds: list[float]
    padding: float
    micro_batches: int  # of each step


def bench_training(
    recipe: Recipe,
    name: str,
    device: torch.device,
    runs: int,
    vocabulary_size: int | None = None,
) -> dict[str, Any]:
    """Trains `recipe` for a few steps to warm up and for `runs` steps that count; returns the values of `bench --json`.

    Tokens a second and the share of the matrix rate are over all steps that count, milliseconds are medians. A step of
    the paper has about 25,000 source and 25,000 target tokens (section 5.1). `vocabulary_size` sets the number
    of rows of embeddings and softmax; raises ValueError where a side has more subwords.
    """
    flush_subnormals()
    keep_freed_memory()
    use_deterministic_algorithms(device)
    precision = Precision(recipe.training.precision, device)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(recipe.data, recipe.subwords, Path(folder), threads=2)
        vocabulary = _vocabulary(prepared, vocabulary_size)
        dtype = getattr(torch, precision.name)
        rate_before = matrix_rate(device, dtype)
        steps = _time_steps(recipe, prepared, vocabulary, precision, runs)
    rate = (rate_before + matrix_rate(device, dtype)) / 2  # the speed of a shared machine changes
    source_flops, target_flops = flops(recipe.model, vocabulary, _mean_length(steps.planned))
    total_flops = sum(3 * (source_flops * _source_tokens(step) + target_flops * step.tokens) for step in steps.planned)
    corpora = [corpus.model_dump(exclude={"weight", "languages"}, exclude_none=True) for corpus in recipe.data.train]
    return {
        **_speed(steps),
        "matrix_rate": rate,
        "share_of_peak": total_flops / sum(steps.seconds) / rate,
        "peak_memory": peak_memory(device),
        "padding": steps.padding,
        "settings": bench_settings(
            name,
            data=" ".join(str(value) for corpus in corpora for value in corpus.values()),
            device=device,
            precision=precision.name,
            runs=runs,
            batch_tokens=recipe.training.max_batch_tokens,
            details={
                "vocabulary": vocabulary.target,
                "dropout": recipe.model.dropout,
                "label_smoothing": recipe.training.label_smoothing,
                "micro_batches": steps.micro_batches,
            },
        ),
    }


def _vocabulary(prepared: PreparedCorpus, size: int | None) -> Vocabulary:
    """Returns the vocabulary of the corpus, or one of `size` subwords a side."""
    largest = max(prepared.source.size, prepared.target.size)
    if size is not None and size < largest:
        raise ValueError(f"--vocabulary {size}: the text has {largest:,} subwords; ask for as many or more")
    return Vocabulary(source=size or prepared.source.size, target=size or prepared.target.size)


def _time_steps(
    recipe: Recipe,
    prepared: PreparedCorpus,
    vocabulary: Vocabulary,
    precision: Precision,
    runs: int,
) -> TimedSteps:
    """Times `runs` steps after the warm-up."""
    training, device = recipe.training, precision.device
    torch.manual_seed(training.seed)
    model = recipe.model.build(vocabulary).to(device)
    smoothing = Smoothing(epsilon=training.label_smoothing, over=training.label_smoothing_over)
    objective = TrainingObjective(model, smoothing, training.regulariser).train()
    largest = training.replaced(batch_tokens=training.max_batch_tokens)
    planner = build_planner(prepared, largest, device, model)
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
    return TimedSteps(records, planned, timer.seconds(), planner.padding, planner.micro_batches)


def _speed(steps: TimedSteps) -> dict[str, Any]:
    """Returns tokens and sentences a second, and the milliseconds of a step, of waiting and of the paper's step."""
    tokens, seconds = sum(record.tokens for record in steps.records), sum(steps.seconds)
    return {
        "tokens_per_second": tokens / seconds,
        "sentences_per_second": _sentence_count(steps.planned) / seconds,
        "milliseconds": {
            "step": 1000 * statistics.median(steps.seconds),
            "waiting": 1000 * statistics.median(record.waiting for record in steps.records),
            "25,000 target tokens": 1000 * 25_000 * seconds / tokens,
        },
    }


def _sentence_count(planned: Sequence[PlannedStep]) -> int:
    """Counts the sentence pairs of all steps."""
    return sum(len(micro_batch.source) for step in planned for micro_batch in step.micro_batches)


def _mean_length(planned: Sequence[PlannedStep]) -> int:
    """Returns the mean number of target tokens a sentence, end symbols included."""
    return round(sum(step.tokens for step in planned) / _sentence_count(planned))


def _source_tokens(step: PlannedStep) -> int:
    """Counts the source tokens of a step, end symbols included, padding excluded."""
    return sum(int((micro_batch.source != 0).sum()) for micro_batch in step.micro_batches)
