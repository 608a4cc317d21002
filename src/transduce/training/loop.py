"""The training loop, a generator that takes one training step at a time and yields its record.

Logging, validating, saving checkpoints and ending the run are left to the caller.
"""

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

# If the processes have to work in lockstep, a process without a micro-batch of its own computes this one with weight 0.
BLANK_MICRO_BATCH = MicroBatch(*[np.full((1, 1), END)] * 3)


class DeferredMetrics:
    """The metrics of a training step, which are copied from the device asynchronously.

    Reading them waits until the device has finished that step, but not any later ones.
    """

    def __init__(self, values: Tensor) -> None:
        self._values, self._arrived = values, None
        if values.is_cuda:
            pinned = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values = pinned.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def read(self) -> list[float]:
        """Waits until the metrics have arrived, and returns them."""
        if self._arrived is not None:
            self._arrived.synchronize()
        values: list[float] = self._values.tolist()
        return values


class StepRecord(NamedTuple):
    """The result of one training step."""

    step: int
    metrics: DeferredMetrics  # smoothed loss, unsmoothed loss, norm of the gradient
    rate: float  # the learning rate
    tokens: int  # number of target tokens, including EOS but not padding
    seconds: float  # duration of the step
    waiting: float  # the part of `seconds` that was spent waiting for data
    epoch: int
    position: Position  # where the next step begins in the data
    can_lower_scale: bool  # True in float16 if a non-finite gradient only lowers the loss scale and is no error

    @property
    def loss(self) -> float:
        """The smoothed loss in nats per target token.

        It includes the auxiliary loss of a mixture of experts and the divergence term of R-Drop.
        """
        return self.metrics.read()[0]

    @property
    def unsmoothed(self) -> float:
        """The loss without label smoothing in nats per target token; its exponential is the perplexity."""
        return self.metrics.read()[1]

    @property
    def gradient_norm(self) -> float:
        """The norm of the gradient before clipping."""
        return self.metrics.read()[2]

    @property
    def skipped(self) -> bool:
        """Whether the step left the weights unchanged because its gradient was infinite or NaN."""
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
    """Trains the model indefinitely, and yields one record per step.

    The first step is number `after` + 1, and its data begins at `position`. Schedules that decay to zero do so at step
    `total_steps`, or stay at their peak if that is None.

    The processes of `group` share the micro-batches of each step, and all end the step with the same gradient. If the
    gradient is infinite or NaN, the step does not change the weights, and the record's `skipped` is True; in float16,
    the loss scale is lowered as well.
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
            # A GPU works asynchronously. Waiting here for the previous step keeps the GPU at most one step behind, so
            # that `seconds` measures the time of its work.
            previous.read()
        previous = metrics
        yield record._replace(seconds=time.perf_counter() - began)


def clip_gradient(optimiser: Optimiser, limit: float | None) -> Float[Tensor, ""]:
    """Clips the gradient to a norm of at most `limit`, and returns its norm before clipping.

    If `limit` is None, the gradient is not changed.
    """
    norm = optimiser.norm()
    if limit is not None:
        optimiser.scale((limit / norm).clamp(max=1.0))
    return norm


def _prefetched(planned: Iterator[PlannedStep]) -> Iterator[PlannedStep]:
    """Yields the steps in `planned`, preparing the next step in a background thread while the device computes."""
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
    """Accumulates the gradient of a step in the optimiser, and returns the step's smoothed and unsmoothed losses.

    Both losses are means over the target tokens of all processes. `planned` contains the micro-batches of this process.
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
    """Runs the forward and the backward pass of a micro-batch.

    Adds `weight` times the gradient of its smoothed loss to the gradients of the parameters. Returns its smoothed and
    its unsmoothed loss, each summed over the target tokens.
    """
    tensors = [torch.from_numpy(np.ascontiguousarray(tokens)) for tokens in micro_batch]
    if precision.device.type == "cuda":
        tensors = [tensor.pin_memory().to(precision.device, non_blocking=True) for tensor in tensors]
    with precision.cast():
        loss = objective(*tensors)
    (loss.smoothed * weight).backward()
    return torch.stack([loss.smoothed.detach(), loss.unsmoothed])


def micro_batch_seed(seed: int, step: int, micro_batch: int) -> int:
    """Returns the random seed for a micro-batch, which does not depend on the process that computes it."""
    digest = hashlib.blake2b(f"{seed} {step} {micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
