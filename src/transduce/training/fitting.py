"""Whether the largest micro-batches fit into memory: tried before the first step, so that it is known at once."""

import numpy as np
import torch

from transduce.corpus import MicroBatch, Planner
from transduce.runtime.device import is_out_of_memory
from transduce.training.loop import forward_backward
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import Optimiser
from transduce.training.precision import Precision

__all__ = ["check_memory", "compile_shapes"]


def check_memory(objective: LabelSmoothing, optimiser: Optimiser, planner: Planner, precision: Precision) -> None:
    """Computes the gradient of the largest micro-batches, of no tokens that matter; nothing of the training is changed.

    A `RuntimeError` names the setting with which they fit.
    """
    largest = {max(planner.shapes, key=lambda shape: shape[0] * shape[1] ** power) for power in (1, 2)}
    for rows, length in sorted(largest):
        if not _fits(objective, precision, rows, length):
            fault = f"{rows} pairs of {length} subwords a side do not fit into the memory of {precision.device}"
            # Where all processes compute each block together, none can try alone what would fit.
            doubled = 2 * planner.micro_batches
            micro_batches = (
                doubled if optimiser.lockstep else _micro_batches_that_fit(objective, planner, precision, rows, length)
            )
            raise RuntimeError(f"{fault}{_remedy(micro_batches, length)}")
    optimiser.zero_gradient()


def compile_shapes(objective: LabelSmoothing, optimiser: Optimiser, planner: Planner, precision: Precision) -> None:
    """Computes the gradient of a micro-batch of each shape, so that the code of every shape is compiled after it."""
    for rows, length in planner.shapes:
        forward_backward(objective, _blank_micro_batch(rows, length), 1.0, precision)
    optimiser.zero_gradient()


def _blank_micro_batch(rows: int, length: int) -> MicroBatch:
    tokens = np.full((rows, length), 3, np.int64)
    return MicroBatch(tokens, tokens, tokens)


def _micro_batches_that_fit(
    objective: LabelSmoothing, planner: Planner, precision: Precision, rows: int, length: int
) -> int | None:
    """The fewest micro-batches with which such rows fit, found by trying; None where not one row does."""
    smaller = 2
    while rows // smaller:
        if _fits(objective, precision, rows // smaller, length):
            return planner.micro_batches * smaller
        smaller *= 2
    return None


def _remedy(micro_batches: int | None, length: int) -> str:
    """What would do."""
    if micro_batches is None:
        return f", and not one pair does: set data.longest below {length}, or take a smaller model"
    return f": set training.micro_batches: {micro_batches} (steps as large, made of smaller micro-batches)"


def _fits(objective: LabelSmoothing, precision: Precision, rows: int, length: int) -> bool:
    """Whether the gradient of such a micro-batch can be computed."""
    try:
        forward_backward(objective, _blank_micro_batch(rows, length), 1.0, precision)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    # Outside of the handler: the error holds on to what was computed so far.
    if precision.device.type == "cuda":
        torch.cuda.empty_cache()
    return False
