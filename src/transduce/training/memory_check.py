"""How many micro-batches a GPU needs, and trial passes before the first step.

The number of micro-batches is estimated, so that it depends only on the settings and the GPU. The trial passes find out
whether the largest micro-batches fit into memory, and compile every shape.
"""

import math

import numpy as np
import torch

from transduce.corpus.planner import MicroBatch, Planner, micro_batches_per_step
from transduce.model.transformer import Transformer
from transduce.model.translation_model import TranslationModel
from transduce.runtime.memory import is_out_of_memory
from transduce.training.loop import forward_backward
from transduce.training.objective import TrainingObjective
from transduce.training.optimiser import Optimiser
from transduce.training.precision import Precision
from transduce.training.training_settings import Training

MEMORY_SHARE = 0.8  # share of the GPU's memory that a step may take; validation and fragmentation take the rest
PARAMETER_BYTES = 18  # float32 weight, gradient and two moments, and a copy in half precision
# Numbers that a backward pass needs for each output of a matrix multiplication: the output itself, what norms, dropout
# and residuals save of it, and gradients. The base model takes 1.6 on a GPU in bfloat16 (7.1 GiB in
# docs/benchmarks.md). Additive attention takes more.
KEPT_NUMBERS = 3


def micro_batches_on_gpu(
    model: TranslationModel, settings: Training, precision: str, memory: int, length: int, processes: int
) -> int:
    """Estimates the smallest number of micro-batches with which a step fits into the memory of each process's GPU.

    The number is at most the number on a CPU, rounded up to a multiple of `processes`. `memory` is in bytes; `length`
    is the number of tokens of the longest sentences. Baselines use the number on a CPU, because some of them save far
    more numbers than their matrix multiplications put out. If the estimate is too low, `check_memory` detects it.
    """
    on_cpu = micro_batches_per_step(settings.max_batch_tokens, "auto")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    weights = PARAMETER_BYTES * parameters / (processes if settings.parallel == "sharded" else 1)
    number_bytes = 4 if precision == "float32" else 2
    passes = 1.0 if settings.regulariser is None else 1 + settings.regulariser.share
    outputs = sum(model.spec.multiplications(length)) / model.spec.d_model  # outputs of products at a pair of positions
    positions = (MEMORY_SHARE * memory - weights) / (passes * number_bytes * KEPT_NUMBERS * outputs)
    is_estimated = positions > 0 and isinstance(model.spec, Transformer)
    micro_batches = math.ceil(settings.max_batch_tokens / positions) if is_estimated else on_cpu
    return math.ceil(min(micro_batches, on_cpu) / processes) * processes


def check_memory(
    objective: TrainingObjective,
    optimiser: Optimiser,
    planner: Planner,
    precision: Precision,
    *,
    is_resumed: bool = False,
) -> None:
    """Raises RuntimeError, which names a setting that fits, if the largest micro-batches do not fit into memory.

    If the run `is_resumed`, the error also names --accept-changes, without which a resumed run rejects the setting. The
    function computes gradients for dummy tokens and clears them, so it does not affect the run.
    """
    largest = {max(planner.shapes, key=lambda shape: shape[0] * shape[1] ** power) for power in (1, 2)}
    for rows, length in sorted(largest):
        if not _fits(objective, precision, rows, length):
            fault = f"{rows} pairs of {length} subwords a side do not fit into the memory of {precision.device}"
            # In lockstep no process can try other shapes on its own.
            doubled = 2 * planner.micro_batches
            micro_batches = (
                doubled if optimiser.lockstep else _micro_batches_that_fit(objective, planner, precision, length)
            )
            accepted = " and add --accept-changes" if is_resumed else ""
            smaller = "(steps as large, made of smaller micro-batches)"
            remedy = f": set training.micro_batches: {micro_batches}{accepted} {smaller}"
            if micro_batches is None:
                remedy = f", and not one pair does: set data.max_length below {length}, or take a smaller model"
            raise RuntimeError(f"{fault}{remedy}")
    optimiser.zero_gradient()


def compile_shapes(objective: TrainingObjective, optimiser: Optimiser, planner: Planner, precision: Precision) -> None:
    """Computes the gradient of one micro-batch of each shape, so that a compiled model compiles for all shapes now."""
    for rows, length in planner.shapes:
        forward_backward(objective, _dummy_micro_batch(rows, length), 1.0, precision)
    optimiser.zero_gradient()


def _dummy_micro_batch(rows: int, length: int) -> MicroBatch:
    tokens = np.full((rows, length), 3, np.int64)
    return MicroBatch(tokens, tokens, tokens)


def _micro_batches_that_fit(
    objective: TrainingObjective, planner: Planner, precision: Precision, length: int
) -> int | None:
    """Finds by trial how many micro-batches a step needs so that sentences of this length fit; None if no number helps.

    Each trial doubles the number.
    """
    micro_batches = 2 * planner.micro_batches
    while rows := planner.rows_with(micro_batches, length):
        if _fits(objective, precision, rows, length):
            return micro_batches
        micro_batches *= 2
    return None


def _fits(objective: TrainingObjective, precision: Precision, rows: int, length: int) -> bool:
    """Whether memory suffices for the gradient of a micro-batch of this shape."""
    try:
        forward_backward(objective, _dummy_micro_batch(rows, length), 1.0, precision)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    # Outside the handler, because the error keeps the tensors of the failed pass alive.
    if precision.device.type == "cuda":
        torch.cuda.empty_cache()
    return False
