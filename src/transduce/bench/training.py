"""The speed of training steps on real sentences, dropout and smoothing on."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transduce.bench.measured import Laps, Settings, matrix_rate, peak_memory
from transduce.corpus import PlannedStep, Planner, Prepared, prepare
from transduce.model import Vocabulary
from transduce.model.flops import flops
from transduce.model.readout import Smoothing
from transduce.recipe import Recipe
from transduce.runtime.device import compile_on_gpu, flush_subnormals, keep_freed_memory, use_deterministic_algorithms
from transduce.training import FlatAdam, LabelSmoothing, Precision, StepRecord, compile_shapes, training_steps

__all__ = ["bench_training"]


WARM_UP = 3  # steps that do not count


class Measured(NamedTuple):
    """The steps that counted, what went into them, and what each took."""

    records: list[StepRecord]
    planned: list[PlannedStep]
    seconds: list[float]
    padding: float


def bench_training(
    recipe: Recipe,
    name: str,
    device: torch.device,
    runs: int,
    say: Callable[[str], None],
    tokens: int | None = None,
) -> dict[str, Any]:
    """Trains `recipe` for a few steps to warm up and `runs` more that count; figures by the keys of `bench --json`.

    Tokens and the share are of all these steps together, the milliseconds of a step their median. 25,000 target
    tokens, and about as many of the source, are a step of the paper (section 5.1). With `words` a side, embeddings and
    softmax are as large as if the text had so many; a `ValueError` where it has more.
    """
    flush_subnormals()
    keep_freed_memory()
    use_deterministic_algorithms(device)
    precision = Precision(recipe.training.precision, device)
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(recipe.data, recipe.subwords, Path(folder), threads=2, say=say)
        vocabulary = _vocabulary(prepared, tokens)
        dtype = torch.float32 if precision.name == "float32" else getattr(torch, precision.name)
        before = matrix_rate(device, dtype)
        measured = _measured(recipe, prepared, vocabulary, precision, runs, say)
    rate = (before + matrix_rate(device, dtype)) / 2  # a machine with neighbours is not always as fast
    read, written = flops(recipe.model, vocabulary, _length(measured.planned))
    work = sum(3 * (read * _source_tokens(planned) + written * planned.tokens) for planned in measured.planned)
    return {
        **_speed(measured),
        "matrix_rate": rate,
        "share_of_peak": work / sum(measured.seconds) / rate,
        "peak_memory": peak_memory(device),
        "padding": measured.padding,
        "settings": _settings(recipe, name, precision, runs, vocabulary).as_dictionary(),
    }


def _vocabulary(prepared: Prepared, tokens: int | None) -> Vocabulary:
    """The text's own, or as many words a side as are wanted."""
    largest = max(prepared.source.size, prepared.target.size)
    if tokens is not None and tokens < largest:
        raise ValueError(f"--vocabulary {tokens}: the text has {largest:,} subwords; ask for as many or more")
    return Vocabulary(source=tokens or prepared.source.size, target=tokens or prepared.target.size)


def _measured(
    recipe: Recipe,
    prepared: Prepared,
    vocabulary: Vocabulary,
    precision: Precision,
    runs: int,
    say: Callable[[str], None],
) -> Measured:
    """Times `runs` steps after the warm-up."""
    training, device = recipe.training, precision.device
    torch.manual_seed(training.seed)
    model = recipe.model.build(vocabulary).to(device)
    smoothing = Smoothing(epsilon=training.label_smoothing, over=training.label_smoothing_over)
    objective = LabelSmoothing(model, smoothing).train()
    planner = Planner(
        prepared.train,
        batch_tokens=training.batch_tokens,
        micro_batches=training.micro_batches,
        seed=training.seed,
        length_multiple=8 if device.type == "cuda" else 1,
        max_positions=model.max_positions,
    )
    optimiser = FlatAdam(model, training.optimiser)
    if model.is_compilable:
        compile_on_gpu(model, device, say)
    if device.type == "cuda":
        compile_shapes(objective, optimiser, planner, precision)
    steps = training_steps(objective, optimiser, planner, training, precision)
    list(islice(steps, WARM_UP))
    laps, records = Laps(device), []
    laps.mark()
    for record in islice(steps, runs):
        laps.mark()
        records.append(record)
    planned = list(islice(planner.steps(), WARM_UP, WARM_UP + runs))
    return Measured(records, planned, laps.seconds(), planner.padding)


def _speed(measured: Measured) -> dict[str, Any]:
    """Returns tokens and sentences a second, and the milliseconds of a step, of waiting and of the paper's step."""
    tokens, seconds = sum(record.tokens for record in measured.records), sum(measured.seconds)
    return {
        "tokens_per_second": tokens / seconds,
        "sentences_per_second": _sentence_count(measured.planned) / seconds,
        "milliseconds": {
            "step": 1000 * statistics.median(measured.seconds),
            "waiting": 1000 * statistics.median(record.waiting for record in measured.records),
            "25,000 target tokens": 1000 * 25_000 * seconds / tokens,
        },
    }


def _settings(recipe: Recipe, name: str, precision: Precision, runs: int, vocabulary: Vocabulary) -> Settings:
    """What the benchmark ran with."""
    corpora = [corpus.model_dump(exclude={"weight", "languages"}, exclude_none=True) for corpus in recipe.data.train]
    return Settings(
        what=name,
        data=" ".join(str(value) for corpus in corpora for value in corpus.values()),
        device=str(precision.device),
        threads=torch.get_num_threads(),
        precision=precision.name,
        torch=torch.__version__,
        runs=runs,
        batch_tokens=recipe.training.batch_tokens,
        details={
            "vocabulary": vocabulary.target,
            "dropout": recipe.model.dropout,
            "label_smoothing": recipe.training.label_smoothing,
            "micro_batches": recipe.training.micro_batches,
        },
    )


def _sentence_count(planned: Sequence[PlannedStep]) -> int:
    """Counts the sentence pairs of all steps."""
    return sum(len(micro_batch.source) for step in planned for micro_batch in step.micro_batches)


def _length(planned: Sequence[PlannedStep]) -> int:
    """Returns the mean number of target tokens a sentence, END included."""
    return round(sum(step.tokens for step in planned) / _sentence_count(planned))


def _source_tokens(planned: PlannedStep) -> int:
    """Counts the source tokens of a step, END included, padding not."""
    return sum(int((micro_batch.source != 0).sum()) for micro_batch in planned.micro_batches)
