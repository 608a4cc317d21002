"""Adam over shards: each process keeps a share of every parameter, of its gradient and its moments (FSDP2).

For models that do not fit into the memory of one device. A block of layers is gathered for its turn and let go after
it; its gradient is added up over the processes and shared out again.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from transduce.runtime.distributed import ProcessGroup
from transduce.training.objective import LabelSmoothing
from transduce.training.optimiser import MOMENTS, Adam, Layout, step

ROWS = [Shard(0)]


class ShardedAdam:
    """Adam over this process's share of the model in `objective`, which it cuts up along first dimensions."""

    lockstep = True

    def __init__(self, objective: LabelSmoothing, spec: Adam, group: ProcessGroup, device: torch.device) -> None:
        self._group, self._layout, self._device = group, Layout(objective.model), device
        self._mesh = init_device_mesh(device.type, (group.size,))
        for block in (*objective.model.blocks(), objective):
            sharded: Any = fully_shard(block, mesh=self._mesh)
            _sums(sharded)
        self._parameters: dict[str, DTensor] = dict(objective.model.named_parameters())  # type: ignore[arg-type]
        self._mine = {name: _own(parameter) for name, parameter in self._parameters.items()}
        # A process has nothing of a parameter that has fewer rows than there are processes.
        self._shares = [share for share in self._mine.values() if share.numel()]
        self._adam = torch.optim.Adam(self._shares, betas=spec.betas, eps=spec.epsilon, fused=True)
        for share in self._shares:  # at once, so that whoever tries whether memory suffices tries it with these
            moments = {name: torch.zeros_like(share) for name in MOMENTS}
            self._adam.state[share] = {"step": torch.zeros((), device=device), **moments}

    def zero_gradient(self) -> None:
        """As `Optimiser.zero_gradient`."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def all_reduce_gradient(self) -> None:
        """As `Optimiser.all_reduce_gradient`: done, block by block, while the gradient was computed."""

    def norm(self) -> Float[Tensor, ""]:
        """As `Optimiser.norm`."""
        squares = torch.zeros((), dtype=torch.float64, device=self._device)
        for gradient in self._gradients().values():
            squares += gradient.double().square().sum()
        self._group.all_reduce(squares)
        return squares.sqrt().float()

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """As `Optimiser.scale`."""
        for gradient in self._gradients().values():
            gradient.mul_(factor)

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """As `Optimiser.update`."""
        gradients = self._gradients()
        for name, share in self._mine.items():
            share.grad = gradients[name]
        step(self._adam, rate, finite)

    def weights(self) -> dict[str, Tensor]:
        """As `Optimiser.weights`; one parameter after another is whole on the device."""
        return {name: self._whole(name, share).to("cpu", copy=True) for name, share in self._mine.items()}

    def state(self) -> dict[str, Tensor]:
        """As `Optimiser.state`."""
        leads = self._group.is_rank_zero
        whole = self._layout.blank() if leads else {}
        for moment in MOMENTS:
            views = self._layout.views(whole[moment]) if leads else {}
            for name, share in self._mine.items():
                joined = self._whole(name, self._adam.state[share][moment] if share.numel() else share)
                if leads:
                    views[name].copy_(joined)
        if leads:
            whole["step"].copy_(self._adam.state[self._shares[0]]["step"])
        return whole

    def parameter_shapes(self) -> list[list[Any]]:
        """As `Optimiser.parameter_shapes`."""
        return self._layout.describe()

    def check_parameters(self, saved: list[list[Any]] | None) -> None:
        """As `Optimiser.check_parameters`."""
        self._layout.check_description(saved)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """As `Optimiser.load_weights`."""
        for name, share in self._mine.items():
            share.copy_(self._share(name, weights[name] if self._group.is_rank_zero else None))

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """As `Optimiser.load_state`."""
        if self._group.is_rank_zero:
            self._layout.check(state)
        else:
            state = self._layout.blank()
        count = state["step"].to(self._device, copy=True)
        self._group.broadcast(count)
        for share in self._shares:
            self._adam.state[share] = {"step": count.clone()}
        for moment in MOMENTS:
            for name, view in self._layout.views(state[moment]).items():
                taken = self._share(name, view if self._group.is_rank_zero else None)
                if taken.numel():
                    self._adam.state[self._mine[name]][moment] = taken.clone()

    def _gradients(self) -> dict[str, Tensor]:
        """This process's share of each gradient; zeros of what no micro-batch has used."""
        return {
            name: torch.zeros_like(self._mine[name]) if parameter.grad is None else _own(parameter.grad)
            for name, parameter in self._parameters.items()
        }

    def _whole(self, name: str, share: Tensor) -> Tensor:
        """All processes' shares, put together in all of them."""
        parameter = self._parameters[name]
        joined = DTensor.from_local(share, self._mesh, ROWS, shape=parameter.shape, stride=parameter.stride())
        return joined.full_tensor()

    def _share(self, name: str, whole: Tensor | None) -> Tensor:
        """This process's share of what the first has whole."""
        if whole is None:
            whole = torch.empty(self._layout.shapes[name])
        return _own(distribute_tensor(whole.to(self._device), self._mesh, ROWS))


def _sums(block: FSDPModule) -> None:
    """Gradients are added, as the loss is divided by the tokens of all processes; stock FSDP takes their mean."""
    block.set_gradient_divide_factor(1.0)
    block.set_force_sum_reduction_for_comms(True)


def _own(tensor: Any) -> Tensor:
    """The share of this process, in the storage that it has."""
    with torch.no_grad():
        share: Tensor = tensor.to_local()
        return share.detach()
