"""Sharded training with Adam and FSDP2, for models that do not fit in the memory of one device.

Each process holds only a shard of every parameter, gradient and moment. FSDP2 gathers the parameters of a block of
layers when the block is computed, and frees them afterwards. In the backward pass it reduces the block's gradients over
the processes and leaves each process with its shard.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from transduce.runtime.distributed import ProcessGroup
from transduce.training.objective import TrainingObjective
from transduce.training.optimiser import MOMENTS, Adam, FusedAdam, Layout, check_shapes

FIRST_DIMENSION = [Shard(0)]


class ShardedAdam:
    """Shards the model in `objective` over the processes, and updates this process's shards with Adam.

    Every parameter is sharded along its first dimension.
    """

    lockstep = True

    def __init__(self, objective: TrainingObjective, spec: Adam, group: ProcessGroup, device: torch.device) -> None:
        self._group, self.layout, self._device = group, Layout(objective.model), device
        self._mesh = init_device_mesh(device.type, (group.size,))
        for block in (*objective.model.blocks(), objective):
            sharded: Any = fully_shard(block, mesh=self._mesh)
            # The gradients are summed instead of averaged, because the loss is already divided by the number of tokens
            # of all processes.
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)
        self._parameters: dict[str, DTensor] = dict(objective.model.named_parameters())  # type: ignore[arg-type]
        self._shards = {name: _local(parameter) for name, parameter in self._parameters.items()}
        # If a parameter has fewer rows than there are processes, its shard is empty on some of them.
        non_empty = {name: shard for name, shard in self._shards.items() if shard.numel()}
        self._adam = FusedAdam([*non_empty.values()], spec)
        self._states = dict(zip(non_empty, self._adam.state, strict=True))

    def zero_gradient(self) -> None:
        """See `Optimiser.zero_gradient`."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def all_reduce_gradient(self) -> None:
        """Does nothing, because FSDP2 sums the gradients of each block during the backward pass."""

    def norm(self) -> Float[Tensor, ""]:
        """See `Optimiser.norm`."""
        squares = torch.zeros((), dtype=torch.float64, device=self._device)
        for gradient in self._gradients().values():
            squares += gradient.double().square().sum()
        self._group.all_reduce(squares)
        return squares.sqrt().float()

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """See `Optimiser.scale`."""
        for gradient in self._gradients().values():
            gradient.mul_(factor)

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """See `Optimiser.update`."""
        gradients = self._gradients()
        self._adam.update([gradients[name] for name in self._states], rate, finite)

    def weights(self) -> dict[str, Tensor]:
        """See `Optimiser.weights`. Parameters are gathered one at a time, to save memory on the device."""
        return {name: self._gather(name, shard).to("cpu", copy=True) for name, shard in self._shards.items()}

    def state(self) -> dict[str, Tensor]:
        """See `Optimiser.state`."""
        is_rank_zero = self._group.is_rank_zero
        state = self._empty_state() if is_rank_zero else {}
        for moment in MOMENTS:
            views = self.layout.views(state[moment]) if is_rank_zero else {}
            for name, shard in self._shards.items():
                whole = self._gather(name, self._states[name][moment] if name in self._states else shard)
                if is_rank_zero:
                    views[name].copy_(whole)
        if is_rank_zero:
            state["step"].copy_(self._adam.state[0]["step"])
        return state

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Optimiser.check_state`."""
        check_shapes(state, self._state_shapes, "the optimiser's state")

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See `Optimiser.load_weights`."""
        for name, shard in self._shards.items():
            shard.copy_(self._scatter(name, weights[name] if self._group.is_rank_zero else None))

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Optimiser.load_state`."""
        if self._group.is_rank_zero:
            self.check_state(state)
        else:
            state = self._empty_state()
        count = state["step"].to(self._device, copy=True)
        self._group.broadcast(count)
        for own in self._adam.state:
            own["step"].copy_(count)
        for moment in MOMENTS:
            for name, view in self.layout.views(state[moment]).items():
                loaded = self._scatter(name, view if self._group.is_rank_zero else None)
                if name in self._states:
                    self._states[name][moment].copy_(loaded)

    @property
    def _state_shapes(self) -> dict[str, torch.Size]:
        """The shapes of the unsharded state: Adam's step count, and for each moment one vector for all parameters."""
        return {"step": torch.Size(()), **dict.fromkeys(MOMENTS, torch.Size((self.layout.size,)))}

    def _empty_state(self) -> dict[str, Tensor]:
        """Returns an unsharded state filled with zeros."""
        return {name: torch.zeros(shape) for name, shape in self._state_shapes.items()}

    def _gradients(self) -> dict[str, Tensor]:
        """Returns this process's shard of each gradient, or zeros if no micro-batch has used the parameter."""
        return {
            name: torch.zeros_like(self._shards[name]) if parameter.grad is None else _local(parameter.grad)
            for name, parameter in self._parameters.items()
        }

    def _gather(self, name: str, shard: Tensor) -> Tensor:
        """Gathers the shards of the tensor `name` from all processes, and returns the full tensor on each of them."""
        parameter = self._parameters[name]
        sharded = DTensor.from_local(
            shard, self._mesh, FIRST_DIMENSION, shape=parameter.shape, stride=parameter.stride()
        )
        return sharded.full_tensor()

    def _scatter(self, name: str, whole: Tensor | None) -> Tensor:
        """Scatters the full tensor `name` from rank 0, and returns this process's shard.

        `whole` is None on all other ranks.
        """
        if whole is None:
            whole = torch.empty(self.layout.shapes[name])
        return _local(distribute_tensor(whole.to(self._device), self._mesh, FIRST_DIMENSION))


def _local(tensor: Any) -> Tensor:
    """Returns a view of this process's shard of a distributed tensor, detached from the autograd graph."""
    with torch.no_grad():
        shard: Tensor = tensor.to_local()
        return shard.detach()
