"""The loop: a generator of step records. Whoever calls it logs, validates, saves and stops."""

import hashlib
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transduce.corpus import MicroBatch, PlannedStep, Planner, Position
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.text.subwords import END
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import Optimiser
from transduce.training.precision import Precision
from transduce.training.spec import Training

BEGINNING = Position()

# What a process without a micro-batch computes where all have to compute equally many; its weight is 0.
BLANK_MICRO_BATCH = MicroBatch(*[np.full((1, 1), END)] * 3)


class DeferredMetrics:
    """What a step found, on its way from the device. Reading waits for that step, and for nothing begun after it."""

    def __init__(self, found: Tensor) -> None:
        self._found, self._arrived = found, None
        if found.is_cuda:
            self._found = torch.empty(found.shape, dtype=found.dtype, pin_memory=True).copy_(found, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def read(self) -> list[float]:
        """The numbers, in their order."""
        if self._arrived is not None:
            self._arrived.synchronize()
        values: list[float] = self._found.tolist()
        return values


class StepRecord(NamedTuple):
    """What one step did."""

    step: int
    figures: DeferredMetrics  # both losses and the norm of the gradient
    rate: float
    tokens: int  # target tokens, end symbols included, padding not
    seconds: float
    waiting: float  # seconds of these spent on waiting for data
    epoch: int
    position: Position  # where the next step begins
    lowers_scale: bool  # in float16, a gradient that is not finite lowers the loss scale and is no fault

    @property
    def loss(self) -> float:
        """Smoothed, in nats a target token; what experts are penalised with is in it."""
        return self.figures.read()[0]

    @property
    def unsmoothed(self) -> float:
        """The same without smoothing: its exponential is the perplexity."""
        return self.figures.read()[1]

    @property
    def gradient_norm(self) -> float:
        """Of the gradient before it is clipped."""
        return self.figures.read()[2]

    @property
    def skipped(self) -> bool:
        """Whether its gradient was no number, so that no weight was changed."""
        return not math.isfinite(self.gradient_norm)


def training_steps(
    objective: LabelSmoothing,
    optimiser: Optimiser,
    planner: Planner,
    training: Training,
    precision: Precision,
    *,
    after: int = 0,
    position: Position = BEGINNING,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Iterator[StepRecord]:
    """Trains for ever, a record a step; goes on after step `after` at `position` of the data.

    The micro-batches of a step are shared out among the processes of `group`; all end it with the same gradient. A step
    whose gradient is not finite changes no weight, and the caller counts it; in float16 the loss scale is lowered.
    """
    planned_steps = planner.steps(position, rank=group.rank, size=group.size)
    if precision.device.type == "cuda":
        planned_steps = _ahead(planned_steps)
    d_model = objective.model.spec.d_model
    step, before = after, None
    while True:
        began = time.perf_counter()
        planned = next(planned_steps)
        waited = time.perf_counter() - began
        step += 1
        rate = training.schedule.rate(step, d_model)
        losses = accumulate_gradients(objective, optimiser, planned, training.seed, step, precision, group)
        norm = clip_gradient(optimiser, training.clip)
        optimiser.update(rate, norm.isfinite())
        figures = DeferredMetrics(torch.cat([losses, norm.double().view(1)]))
        record = StepRecord(
            step, figures, rate, planned.tokens, 0.0, waited, planned.epoch, planned.position, precision.lowering
        )
        if precision.name == "float16":
            precision.scale_by(not record.skipped)
        elif before is not None:
            before.read()  # a GPU is a step behind: it is waited for here, so that the seconds are those of its work
        before = figures
        yield record._replace(seconds=time.perf_counter() - began)


def clip_gradient(optimiser: Optimiser, limit: float | None) -> Float[Tensor, ""]:
    """Scales the gradient so that its norm is at most `limit`; returns the norm before."""
    norm = optimiser.norm()
    if limit is not None:
        optimiser.scale((limit / norm).clamp(max=1.0))
    return norm


def _ahead(planned: Iterator[PlannedStep]) -> Iterator[PlannedStep]:
    """The same steps, each put together while the device is at work on the one before."""
    with ThreadPoolExecutor(1) as aside:
        following = aside.submit(next, planned)
        while True:
            ready = following.result()
            following = aside.submit(next, planned)
            yield ready


def accumulate_gradients(
    objective: LabelSmoothing,
    optimiser: Optimiser,
    planned: PlannedStep,
    seed: int,
    step: int,
    precision: Precision,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Float[Tensor, "2"]:
    """Leaves the gradient of the mean loss of the step's tokens in the optimiser; gives both mean losses.

    `planned` has the micro-batches of this process.
    """
    optimiser.zero_gradient()
    losses = torch.zeros(2, dtype=torch.float64, device=precision.device)
    for place, micro_batch in enumerate(planned.micro_batches):
        torch.manual_seed(micro_batch_seed(seed, step, group.rank + place * group.size))
        losses += forward_backward(objective, micro_batch, precision.scale / planned.tokens, precision)
    if optimiser.lockstep and len(planned.micro_batches) * group.size < planned.micro_batch_count:
        forward_backward(objective, BLANK_MICRO_BATCH, 0.0, precision)
    if precision.scale != 1:
        optimiser.scale(1 / precision.scale)
    optimiser.all_reduce_gradient()
    group.all_reduce(losses)
    return losses / planned.tokens


def forward_backward(
    objective: LabelSmoothing, micro_batch: MicroBatch, weight: float, precision: Precision
) -> Float[Tensor, "2"]:
    """Adds a micro-batch's gradient, times `weight`, to the gradients; returns both sums of its loss."""
    source, target_in, target_out = _tensors(micro_batch, precision.device)
    with precision.cast():
        loss = objective(source, target_in, target_out)
    (loss.smoothed * weight).backward()
    return torch.stack([loss.smoothed.detach(), loss.unsmoothed])


def micro_batch_seed(seed: int, step: int, micro_batch: int) -> int:
    """The seed of all randomness in one micro-batch: a hash of what it is, never of who computes it."""
    digest = hashlib.blake2b(f"{seed} {step} {micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _tensors(micro_batch: MicroBatch, device: torch.device) -> list[Tensor]:
    """The micro-batch's three rectangles on the device."""
    rectangles = [torch.from_numpy(np.ascontiguousarray(tokens)) for tokens in micro_batch]
    if device.type == "cuda":
        return [tokens.pin_memory().to(device, non_blocking=True) for tokens in rectangles]
    return rectangles
