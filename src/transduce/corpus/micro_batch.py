"""Micro-batches, steps of several micro-batches, and positions in the data between steps."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ids", "MicroBatch", "PlannedStep", "Position"]

Ids = NDArray[np.int64]


class Position(NamedTuple):
    """A position in the data between two steps: `step` steps of `portion` of `epoch` are done.

    In a ramp of the size of steps these are whole steps, and `part` parts of the next one are done.
    """

    epoch: int = 0
    step: int = 0
    portion: int = 0
    part: int = 0


class MicroBatch(NamedTuple):
    """Pairs of sentences, one padded array for each side; 0 is padding."""

    source: Ids
    """[batch, source]: tokens, END."""
    target_in: Ids
    """[batch, target]: BEGIN, tokens."""
    target_out: Ids
    """[batch, target]: tokens, END."""


class PlannedStep(NamedTuple):
    """The micro-batches of a step, its number of tokens, which divides its loss, and the position after it."""

    epoch: int
    micro_batches: list[MicroBatch]
    """The micro-batches of one process."""
    micro_batch_count: int
    """The number of micro-batches of all processes."""
    tokens: int
    """Target tokens of the micro-batches of all processes, END included."""
    position: Position
