"""Whether the largest pieces fit into memory: tried before the first step, so that it is known at once."""

import numpy as np
import torch

from transduce.corpus import Piece, Planner
from transduce.runtime.device import refused_memory
from transduce.training.loop import pushed_back
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import Optimiser
from transduce.training.precision import Precision

__all__ = ["meet_shapes", "try_largest"]


def try_largest(objective: LabelSmoothing, optimiser: Optimiser, planner: Planner, precision: Precision) -> None:
    """Computes the gradient of the largest pieces, of no words that matter; nothing of the training is changed.

    A `RuntimeError` names the setting with which they fit.
    """
    largest = {max(planner.shapes, key=lambda shape: shape[0] * shape[1] ** power) for power in (1, 2)}
    for rows, length in sorted(largest):
        if not _fits(objective, precision, rows, length):
            fault = f"{rows} pairs of {length} subwords a side do not fit into the memory of {precision.device}"
            # Where all processes compute each block together, none can try alone what would fit.
            doubled = 2 * planner.pieces
            pieces = doubled if optimiser.lockstep else _pieces_that_fit(objective, planner, precision, rows, length)
            raise RuntimeError(f"{fault}{_remedy(pieces, length)}")
    optimiser.clear()


def meet_shapes(objective: LabelSmoothing, optimiser: Optimiser, planner: Planner, precision: Precision) -> None:
    """Computes the gradient of a piece of each shape, of no words that matter, so that all is compiled after it."""
    for rows, length in planner.shapes:
        pushed_back(objective, _piece(rows, length), 1.0, precision)
    optimiser.clear()


def _piece(rows: int, length: int) -> Piece:
    words = np.full((rows, length), 3, np.int64)
    return Piece(words, words, words)


def _pieces_that_fit(
    objective: LabelSmoothing, planner: Planner, precision: Precision, rows: int, length: int
) -> int | None:
    """The fewest pieces with which such rows fit, found by trying; None where not one row does."""
    smaller = 2
    while rows // smaller:
        if _fits(objective, precision, rows // smaller, length):
            return planner.pieces * smaller
        smaller *= 2
    return None


def _remedy(pieces: int | None, length: int) -> str:
    """What would do."""
    if pieces is None:
        return f", and not one pair does: set data.longest below {length}, or take a smaller model"
    return f": set training.pieces: {pieces} (steps as large, made of smaller pieces)"


def _fits(objective: LabelSmoothing, precision: Precision, rows: int, length: int) -> bool:
    """Whether the gradient of such a piece can be computed."""
    try:
        pushed_back(objective, _piece(rows, length), 1.0, precision)
    except RuntimeError as error:
        if not refused_memory(error):
            raise
    else:
        return True
    # Outside of the handler: the error holds on to what was computed so far.
    if precision.device.type == "cuda":
        torch.cuda.empty_cache()
    return False
