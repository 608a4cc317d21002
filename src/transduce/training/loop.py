"""The loop: a generator of step records. Whoever calls it logs, validates, saves and stops."""

import hashlib
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from transduce.corpus import Piece, Planned, Planner, Position
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import FlatAdam
from transduce.training.precision import Precision
from transduce.training.spec import Training

BEGINNING = Position()


class DivergedError(RuntimeError):
    """The loss or its gradient is no longer a number."""


class StepRecord(NamedTuple):
    """What one step did."""

    step: int
    loss: float  # smoothed, in nats a target word
    unsmoothed: float  # the same without smoothing: its exponential is the perplexity
    rate: float
    gradient_norm: float
    words: int  # target words, end symbols included, padding not
    seconds: float
    waiting: float  # seconds of these spent on waiting for data
    epoch: int
    position: Position  # where the next step begins


def training_steps(
    objective: LabelSmoothing,
    optimiser: FlatAdam,
    planner: Planner,
    training: Training,
    precision: Precision,
    *,
    after: int = 0,
    position: Position = BEGINNING,
) -> Iterator[StepRecord]:
    """Trains for ever, a record a step; goes on after step `after` at `position` of the data.

    Raises `DivergedError` when the gradient is not finite; float16 lowers its loss scale and leaves the step out.
    """
    planned_steps = planner.steps(position)
    d_model = objective.model.spec.d_model
    step = after
    while True:
        began = time.perf_counter()
        planned = next(planned_steps)
        waited = time.perf_counter() - began
        step += 1
        rate = training.schedule.rate(step, d_model)
        loss, unsmoothed = _gradients(objective, optimiser, planned, training.seed, step, precision)
        norm = float(optimiser.gradient.norm())
        if not precision.overflowed(math.isfinite(norm)):
            _refuse_divergence(step, rate, loss, norm)
            if training.clip is not None and norm > training.clip:
                optimiser.gradient.mul_(training.clip / norm)
            optimiser.update(rate)
        seconds = time.perf_counter() - began
        yield StepRecord(
            step, loss, unsmoothed, rate, norm, planned.words, seconds, waited, planned.epoch, planned.position
        )


def _gradients(
    objective: LabelSmoothing, optimiser: FlatAdam, planned: Planned, seed: int, step: int, precision: Precision
) -> tuple[float, float]:
    """Leaves the gradient of the mean loss of the step's words in the optimiser; gives both mean losses."""
    optimiser.clear()
    sums = []
    for index, piece in enumerate(planned.pieces):
        torch.manual_seed(piece_seed(seed, step, index))
        source, target_in, target_out = _tensors(piece, precision.device)
        with precision.cast():
            loss = objective(source, target_in, target_out)
        (loss.smoothed * (precision.scale / planned.words)).backward()
        sums.append(torch.stack([loss.smoothed.detach(), loss.unsmoothed]))
    if precision.scale != 1:
        optimiser.gradient.div_(precision.scale)
    smoothed, unsmoothed = (torch.stack(sums).double().sum(0) / planned.words).tolist()
    return smoothed, unsmoothed


def piece_seed(seed: int, step: int, piece: int) -> int:
    """The seed of all randomness in one piece: a hash of what it is, never of who computes it."""
    digest = hashlib.blake2b(f"{seed} {step} {piece}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _tensors(piece: Piece, device: torch.device) -> list[torch.Tensor]:
    """The piece's three rectangles on the device."""
    return [
        torch.from_numpy(np.ascontiguousarray(words)).to(device, non_blocking=True)
        for words in (piece.source, piece.target_in, piece.target_out)
    ]


def _refuse_divergence(step: int, rate: float, loss: float, norm: float) -> None:
    """Stops before an update that would fill every weight with NaN."""
    if not math.isfinite(norm):
        raise DivergedError(
            f"training diverged at step {step}: loss {loss}, gradient norm {norm}. The last checkpoint is unharmed. "
            f"Lower the learning rate (now {rate:.2e}), lengthen `training.schedule.warmup`, or set "
            "`training.clip: 1.0`"
        )
