"""Checks before the first training step that micro-batches fit in memory, and chooses their number on a GPU.

The number of micro-batches per step is estimated rather than measured, so that it depends only on the settings and the
GPU. Trial passes then check that the largest micro-batches actually fit in memory. Further trial passes can compile the
model for all shapes in advance.
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

MEMORY_SHARE = 0.8  # fraction of the GPU's memory that a step may use; validation and fragmentation need the rest
PARAMETER_BYTES = 18  # weight, gradient and two moments in float32, and a copy of the weight in half precision
# Number of values that must be kept for the backward pass for each output of a matrix multiplication: the output
# itself, the values that layer normalisation, dropout and residual connections save, and gradients. The base model
# needs 1.6 on a GPU in bfloat16 (7.1 GiB in docs/benchmarks.md); additive attention needs more.
KEPT_NUMBERS = 3


def micro_batches_on_gpu(
    model: TranslationModel, settings: Training, precision: str, memory: int, length: int, processes: int
) -> int:
    """Estimates the smallest number of micro-batches per step for which a step fits in the memory of a GPU.

    `memory` is the memory of the GPU of each process in bytes, and `length` is the length of the longest sentences in
    tokens. The result is a multiple of `processes`, and at most the number used on a CPU, rounded up to such a
    multiple. The paper's baselines always use the number for a CPU, because some of them save far more activations than
    the outputs of their matrix multiplications. If the estimate is too low, `check_memory` detects this.
    """
    on_cpu = micro_batches_per_step(settings.max_batch_tokens, "auto")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    weights = PARAMETER_BYTES * parameters / (processes if settings.parallel == "sharded" else 1)
    number_bytes = 4 if precision == "float32" else 2
    passes = 1.0 if settings.regulariser is None else 1 + settings.regulariser.share
    # Outputs of matrix multiplications for one source position and one target position.
    outputs = sum(model.spec.multiplications(length)) / model.spec.d_model
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
    """Raises RuntimeError if the largest micro-batches do not fit in memory.

    The error message suggests a setting with which they fit. If the run `is_resumed`, it also mentions
    --accept-changes, because a resumed run would otherwise reject that setting. The check computes the gradients of
    dummy micro-batches and then sets the gradients to zero, so that it does not affect the run.
    """
    largest = {max(planner.shapes, key=lambda shape: shape[0] * shape[1] ** power) for power in (1, 2)}
    for rows, length in sorted(largest):
        if not _fits(objective, precision, rows, length):
            fault = f"{rows} pairs of {length} subwords a side do not fit into the memory of {precision.device}"
            # If the processes work in lockstep, a single process cannot try other shapes.
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
    """Computes the gradient of one dummy micro-batch of each shape, so that the model is compiled for all shapes."""
    for rows, length in planner.shapes:
        forward_backward(objective, _dummy_micro_batch(rows, length), 1.0, precision)
    optimiser.zero_gradient()


def _dummy_micro_batch(rows: int, length: int) -> MicroBatch:
    tokens = np.full((rows, length), 3, np.int64)
    return MicroBatch(tokens, tokens, tokens)


def _micro_batches_that_fit(
    objective: TrainingObjective, planner: Planner, precision: Precision, length: int
) -> int | None:
    """Finds by trial a number of micro-batches per step with which sentences of the given length fit in memory.

    Each trial doubles the number. Returns None if not even a micro-batch with a single pair fits.
    """
    micro_batches = 2 * planner.micro_batches
    while rows := planner.rows_with(micro_batches, length):
        if _fits(objective, precision, rows, length):
            return micro_batches
        micro_batches *= 2
    return None


def _fits(objective: TrainingObjective, precision: Precision, rows: int, length: int) -> bool:
    """Returns True if the gradient of a micro-batch of this shape can be computed without running out of memory."""
    try:
        forward_backward(objective, _dummy_micro_batch(rows, length), 1.0, precision)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    # The cache is emptied outside the handler, because the exception keeps the tensors of the failed pass alive.
    if precision.device.type == "cuda":
        torch.cuda.empty_cache()
    return False
