"""The training loop: a generator of step records. Its caller logs, validates, saves and stops."""

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

from transduce.corpus.planner import MicroBatch, PlannedStep, Planner, Position
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.text.byte_level import END
from transduce.training.objective import TrainingObjective
from transduce.training.optimiser import Optimiser
from transduce.training.precision import Precision
from transduce.training.training_settings import Training

BEGINNING = Position()

# In lockstep, a process without a micro-batch of its own computes this one with weight 0.
BLANK_MICRO_BATCH = MicroBatch(*[np.full((1, 1), END)] * 3)


class DeferredMetrics:
    """Metrics of a step, copied from the device asynchronously; `read` waits for that step but not for later ones."""

    def __init__(self, values: Tensor) -> None:
        self._values, self._arrived = values, None
        if values.is_cuda:
            pinned = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values = pinned.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def read(self) -> list[float]:
        """Waits for the metrics and returns them."""
        if self._arrived is not None:
            self._arrived.synchronize()
        values: list[float] = self._values.tolist()
        return values


class StepRecord(NamedTuple):
    """The result of one training step."""

    step: int
    metrics: DeferredMetrics  # smoothed loss, unsmoothed loss, norm of the gradient
    rate: float
    tokens: int  # target tokens, including end symbols but not padding
    seconds: float
    waiting: float  # the part of `seconds` that was spent waiting for data
    epoch: int
    position: Position  # where the next step begins in the data
    can_lower_scale: bool  # in float16, a gradient that is not finite lowers the loss scale and is not a fault

    @property
    def loss(self) -> float:
        """The smoothed loss in nats per target token, including the penalties of experts and of R-Drop."""
        return self.metrics.read()[0]

    @property
    def unsmoothed(self) -> float:
        """The loss without smoothing in nats per target token; its exponential is the perplexity."""
        return self.metrics.read()[1]

    @property
    def gradient_norm(self) -> float:
        """The norm of the gradient before clipping."""
        return self.metrics.read()[2]

    @property
    def skipped(self) -> bool:
        """Whether the gradient was not finite, so that the step did not change the weights."""
        return not math.isfinite(self.gradient_norm)


def training_steps(
    objective: TrainingObjective,
    optimiser: Optimiser,
    planner: Planner,
    training: Training,
    precision: Precision,
    *,
    after: int = 0,
    position: Position = BEGINNING,
    group: ProcessGroup = SINGLE_PROCESS,
    total_steps: int | None = None,
) -> Iterator[StepRecord]:
    """Trains indefinitely and yields one record per step; starts after step `after`, at `position` in the data.

    Schedules that reach zero do so at `total_steps`; None means that the number is not known yet. The processes of
    `group` divide the micro-batches of each step among themselves and end the step with the same gradient. A step whose
    gradient is not finite does not change the weights, and the caller counts it; in float16 the loss scale is lowered.
    """
    planned_steps = planner.steps(position, after=after, rank=group.rank, size=group.size)
    if precision.device.type == "cuda":
        planned_steps = _prefetched(planned_steps)
    step, previous = after, None
    while True:
        began = time.perf_counter()
        planned = next(planned_steps)
        waiting = time.perf_counter() - began
        step += 1
        rate = training.schedule.rate(step, objective.model.spec.d_model, total_steps)
        losses = accumulate_gradients(objective, optimiser, planned, training.seed, step, precision, group)
        norm = clip_gradient(optimiser, training.clip)
        optimiser.update(rate, norm.isfinite())
        metrics = DeferredMetrics(torch.cat([losses, norm.double().view(1)]))
        epoch, can_lower_scale = planned.epoch, precision.can_lower_scale
        record = StepRecord(step, metrics, rate, planned.tokens, 0.0, waiting, epoch, planned.position, can_lower_scale)
        if precision.name == "float16":
            precision.update_scale(not record.skipped)
        elif previous is not None:
            previous.read()  # a GPU is one step behind; because of this wait, `seconds` measures its work
        previous = metrics
        yield record._replace(seconds=time.perf_counter() - began)


def clip_gradient(optimiser: Optimiser, limit: float | None) -> Float[Tensor, ""]:
    """Scales the gradient down to a norm of at most `limit`; returns the norm before scaling."""
    norm = optimiser.norm()
    if limit is not None:
        optimiser.scale((limit / norm).clamp(max=1.0))
    return norm


def _prefetched(planned: Iterator[PlannedStep]) -> Iterator[PlannedStep]:
    """Yields the same steps; a thread prepares the next step while the device computes."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, planned)
        while True:
            ready = following.result()
            following = thread.submit(next, planned)
            yield ready


def accumulate_gradients(
    objective: TrainingObjective,
    optimiser: Optimiser,
    planned: PlannedStep,
    seed: int,
    step: int,
    precision: Precision,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Float[Tensor, "2"]:
    """Accumulates the gradient of the step's mean loss per token in the optimiser; returns both mean losses.

    `planned` holds the micro-batches of this process.
    """
    optimiser.zero_gradient()
    losses = torch.zeros(2, dtype=torch.float64, device=precision.device)
    for index, micro_batch in enumerate(planned.micro_batches):
        torch.manual_seed(micro_batch_seed(seed, step, group.rank + index * group.size))
        losses += forward_backward(objective, micro_batch, precision.scale / planned.tokens, precision)
    if optimiser.lockstep and len(planned.micro_batches) * group.size < planned.micro_batch_count:
        forward_backward(objective, BLANK_MICRO_BATCH, 0.0, precision)
    if precision.scale != 1:
        optimiser.scale(1 / precision.scale)
    optimiser.all_reduce_gradient()
    group.all_reduce(losses)
    return losses / planned.tokens


def forward_backward(
    objective: TrainingObjective, micro_batch: MicroBatch, weight: float, precision: Precision
) -> Float[Tensor, "2"]:
    """Adds `weight` times the gradient of a micro-batch to the gradients; returns the sums of both its losses."""
    tensors = [torch.from_numpy(np.ascontiguousarray(tokens)) for tokens in micro_batch]
    if precision.device.type == "cuda":
        tensors = [tensor.pin_memory().to(precision.device, non_blocking=True) for tensor in tensors]
    with precision.cast():
        loss = objective(*tensors)
    (loss.smoothed * weight).backward()
    return torch.stack([loss.smoothed.detach(), loss.unsmoothed])


def micro_batch_seed(seed: int, step: int, micro_batch: int) -> int:
    """Returns the seed for a micro-batch's randomness: a hash that is the same whichever process computes it."""
    digest = hashlib.blake2b(f"{seed} {step} {micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
