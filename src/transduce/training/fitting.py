"""Whether the largest pieces fit into memory: tried before the first step, so that it is known at once."""

import numpy as np
import torch

from transduce.corpus import Piece, Planned, Planner, Position
from transduce.machine import refused_memory
from transduce.training.loop import gradients
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import FlatAdam
from transduce.training.precision import Precision

__all__ = ["try_largest"]


def try_largest(objective: LabelSmoothing, optimiser: FlatAdam, planner: Planner, precision: Precision) -> None:
    """Computes the gradient of the largest pieces, of no words that matter; nothing of the training is changed.

    A `ValueError` names the setting with which they fit.
    """
    largest = {max(planner.shapes, key=lambda shape: shape[0] * shape[1] ** power) for power in (1, 2)}
    for rows, length in sorted(largest):
        if not _fits(objective, optimiser, precision, rows, length):
            raise ValueError(_remedy(objective, optimiser, planner, precision, rows, length))
    optimiser.clear()


def _remedy(
    objective: LabelSmoothing, optimiser: FlatAdam, planner: Planner, precision: Precision, rows: int, length: int
) -> str:
    """What was too large, and the fewest pieces that would do, found by trying."""
    fault = f"{rows} pairs of {length} subwords a side do not fit into the memory of {precision.device}"
    smaller = 2
    while rows // smaller:
        if _fits(objective, optimiser, precision, rows // smaller, length):
            return f"{fault}: set training.pieces: {planner.pieces * smaller} (the same steps, made of smaller pieces)"
        smaller *= 2
    return f"{fault}, and not one pair does: set data.longest below {length}, or take a smaller model"


def _fits(objective: LabelSmoothing, optimiser: FlatAdam, precision: Precision, rows: int, length: int) -> bool:
    """Whether the gradient of such a piece can be computed."""
    words = np.full((rows, length), 3, np.int64)
    planned = Planned(0, 0, [Piece(words, words, words)], rows * length, Position())
    try:
        gradients(objective, optimiser, planned, 0, 0, precision)
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not refused_memory(error):
            raise
    else:
        return True
    # Outside of the handler: the error holds on to what was computed so far.
    if precision.device.type == "cuda":
        torch.cuda.empty_cache()
    return False
