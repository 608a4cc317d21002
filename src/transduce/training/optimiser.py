"""Adam (section 5.3) over one flat buffer.

Every parameter is a view of one long vector and every gradient of another. Clearing, measuring, clipping, reducing and
updating are then one operation each, however many matrices the model has.
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Annotated, Any, Literal, Protocol

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.settings import Spec

ALIGNMENT = 16  # elements: a matrix that begins at a cache line is multiplied faster

NORM_BLOCK = 2**22  # numbers whose squares are in memory at once

MOMENTS = ("exp_avg", "exp_avg_sq")


Decay = Annotated[float, Field(ge=0, lt=1)]


class Adam(Spec):
    """Adam (Kingma and Ba 2015) with the paper's constants."""

    kind: Literal["adam"] = "adam"
    betas: tuple[Decay, Decay] = Field(
        default=(0.9, 0.98), description="Decay of the means of the gradient and of its square."
    )
    epsilon: float = Field(default=1e-9, gt=0, description="Added to the root of the second mean.")


class Optimiser(Protocol):
    """Parameters and what changes them, wherever they lie: whole in each process, or in shards.

    What is written is the same: weights by name, and Adam's step and moments, each moment one vector of all parameters.
    """

    lockstep: bool  # whether all processes have to compute equally many micro-batches

    def zero_gradient(self) -> None:
        """Gradients to zero."""

    def all_reduce_gradient(self) -> None:
        """The gradient becomes that of all processes."""

    def norm(self) -> Float[Tensor, ""]:
        """Of the gradient."""

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiplies the gradient."""

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """One step of Adam at `rate` with the gradient as it is; nothing happens where it is not `finite`."""

    def weights(self) -> dict[str, Tensor]:
        """The parameters by name, each shared one once, whole and on the CPU; all processes call it."""

    def state(self) -> dict[str, Tensor]:
        """Adam's step and moments, whole and on the CPU, in the first process; all call it, the others get nothing."""

    def parameter_shapes(self) -> list[list[Any]]:
        """Returns the name and shape of each parameter in the order of the state's vectors."""

    def check_parameters(self, saved: list[list[Any]] | None) -> None:
        """Raises `ValueError` where `saved` `parameter_shapes` are of another model; None is of an older version."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Goes on with the first process's weights; all processes call it."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Goes on from the first process's state; all processes call it.

        A `ValueError` where it belongs to another model.
        """


class Layout:
    """Where each parameter of a model lies in one vector of all."""

    def __init__(self, model: nn.Module) -> None:
        self.shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        self.places: dict[str, slice] = {}
        self.size = 0
        for name, shape in self.shapes.items():
            self.places[name] = slice(self.size, self.size + shape.numel())
            self.size += -(-shape.numel() // ALIGNMENT) * ALIGNMENT

    def views(self, vector: Float[Tensor, " size"]) -> dict[str, Tensor]:
        """The parts of a vector, by name and in their shapes."""
        return {name: vector[place].view(self.shapes[name]) for name, place in self.places.items()}

    def describe(self) -> list[list[Any]]:
        """Returns the name and shape of each parameter in their order, as JSON values."""
        return [[name, list(shape)] for name, shape in self.shapes.items()]

    def check_description(self, saved: list[list[Any]] | None) -> None:
        """Raises `ValueError` where a state was saved with other parameters, or in another order."""
        for one, other in zip_longest(saved or self.describe(), self.describe()):
            if one != other:
                raise ValueError(
                    f"the optimiser's state was saved with parameter {one} where this model has {other}: it belongs to "
                    "another model, or to another version of the program"
                )

    def check(self, state: Mapping[str, Tensor]) -> None:
        """A `ValueError` where Adam's state belongs to another model."""
        if len(state["exp_avg"]) != self.size:
            raise ValueError(
                f"the optimiser's state has {len(state['exp_avg']):,} numbers where this model needs "
                f"{self.size:,}: it belongs to another model"
            )

    def blank(self) -> dict[str, Tensor]:
        """Adam's state in its shapes, to be filled from another process."""
        return {"step": torch.zeros(()), **{name: torch.zeros(self.size) for name in MOMENTS}}


class FlatAdam:
    """Adam over all parameters of `model`, which it lays out in one buffer; every process has them whole."""

    lockstep = False

    def __init__(self, model: nn.Module, spec: Adam, group: ProcessGroup = SINGLE_PROCESS) -> None:
        self._model, self._group, self._layout = model, group, Layout(model)
        parameters = dict(model.named_parameters())
        self.vector = next(iter(parameters.values())).new_zeros(self._layout.size)
        self.gradient = torch.zeros_like(self.vector)
        weights, gradients = self._layout.views(self.vector), self._layout.views(self.gradient)
        for name, parameter in parameters.items():
            weights[name].copy_(parameter.detach())
            parameter.data, parameter.grad = weights[name], gradients[name]
        self.vector.grad = self.gradient
        self._adam = torch.optim.Adam([self.vector], betas=spec.betas, eps=spec.epsilon, fused=True)
        # At once, so that whoever tries whether memory suffices tries it with these.
        moments = {name: torch.zeros_like(self.vector) for name in MOMENTS}
        self._adam.state[self.vector] = {"step": torch.zeros((), device=self.vector.device), **moments}

    def zero_gradient(self) -> None:
        """As `Optimiser.zero_gradient`."""
        self.gradient.zero_()

    def all_reduce_gradient(self) -> None:
        """As `Optimiser.all_reduce_gradient`; of one buffer, in an order that only the number of processes decides."""
        self._group.all_reduce(self.gradient)

    def norm(self) -> Float[Tensor, ""]:
        """As `Optimiser.norm`."""
        # One float32 norm over the whole vector loses small numbers: 0.5 % at 63 million.
        squares = [part.square().sum(dtype=torch.float64) for part in self.gradient.split(NORM_BLOCK)]
        return torch.stack(squares).sum().sqrt().to(self.gradient.dtype)

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """As `Optimiser.scale`."""
        self.gradient.mul_(factor)

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """As `Optimiser.update`."""
        step(self._adam, rate, finite)

    def weights(self) -> dict[str, Tensor]:
        """As `Optimiser.weights`."""
        return {name: weight.detach().to("cpu", copy=True) for name, weight in self._model.named_parameters()}

    def state(self) -> dict[str, Tensor]:
        """As `Optimiser.state`."""
        if not self._group.is_rank_zero:
            return {}
        return {name: tensor.to("cpu", copy=True) for name, tensor in self._adam.state[self.vector].items()}

    def parameter_shapes(self) -> list[list[Any]]:
        """As `Optimiser.parameter_shapes`."""
        return self._layout.describe()

    def check_parameters(self, saved: list[list[Any]] | None) -> None:
        """As `Optimiser.check_parameters`."""
        self._layout.check_description(saved)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """As `Optimiser.load_weights`."""
        if self._group.is_rank_zero:
            for name, view in self._layout.views(self.vector).items():
                view.copy_(weights[name])
        self._group.broadcast(self.vector)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """As `Optimiser.load_state`."""
        if self._group.is_rank_zero:
            self._layout.check(state)
        else:
            state = self._layout.blank()
        taken = {name: tensor.to(self.vector.device, copy=True) for name, tensor in state.items()}
        self._group.broadcast(*(taken[name] for name in sorted(taken)))
        self._adam.state[self.vector] = taken


def step(adam: torch.optim.Adam, rate: float, finite: Bool[Tensor, ""]) -> None:
    """One step of Adam at `rate`, or none where the gradient is not `finite`; nobody waits for the device to know."""
    adam.param_groups[0]["lr"] = rate
    # What torch's loss scaler sets: the kernel looks at it.
    adam.found_inf = (~finite).float()  # type: ignore[attr-defined]
    adam.step()
