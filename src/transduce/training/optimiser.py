"""The interface of an optimiser, and Adam (section 5.3) over one flat buffer.

Every parameter is a view of one vector, and every gradient a view of another. Clearing, measuring, clipping, reducing
and updating then take one operation each, for any number of matrices.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any, Literal, Protocol

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.optim.adam import adam

from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.settings import Spec

ALIGNMENT = 16  # elements; a matrix that begins at a cache line is multiplied faster


class Layout:
    """The position of each parameter of a model in one vector of all parameters.

    Parameters named in `first` come first.
    """

    def __init__(self, model: nn.Module, first: Sequence[str] = ()) -> None:
        parameters = dict(model.named_parameters())
        self.shapes = {name: parameters[name].shape for name in dict.fromkeys([*first, *parameters])}
        self.slices: dict[str, slice] = {}
        self.size = 0
        for name, shape in self.shapes.items():
            self.slices[name] = slice(self.size, self.size + shape.numel())
            self.size += -(-shape.numel() // ALIGNMENT) * ALIGNMENT

    def views(self, vector: Float[Tensor, " size"]) -> dict[str, Tensor]:
        """Returns views of a vector by parameter name, each in the shape of its parameter."""
        return {name: vector[span].view(self.shapes[name]) for name, span in self.slices.items()}

    def parameter_shapes(self) -> list[list[Any]]:
        """The name and shape of each parameter, in order, as JSON values."""
        return [[name, list(shape)] for name, shape in self.shapes.items()]

    def check_parameter_shapes(self, saved: list[list[Any]]) -> None:
        """Raises ValueError if the `saved` shapes belong to other parameters, or are in a different order."""
        for before, now in zip_longest(saved, self.parameter_shapes()):
            if before != now:
                raise ValueError(
                    f"the optimiser's state was saved with parameter {before} where this model has {now}: it belongs "
                    "to another model, or to another version of the program"
                )

    def check_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Raises ValueError if saved weights have other names or shapes than the parameters."""
        check_shapes(weights, self.shapes, "the saved model")


def check_shapes(tensors: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], what: str) -> None:
    """Raises ValueError if the names or shapes of `tensors` differ from `shapes`, or a tensor is not floating-point."""
    saved = {name: tensor.shape for name, tensor in tensors.items() if tensor.is_floating_point()}
    for name in {**shapes, **tensors}:
        if saved.get(name) != shapes.get(name):
            before, now = (str(list(each[name])) if name in each else "none" for each in (saved, shapes))
            raise ValueError(
                f"{what} has numbers of shape {before} for `{name}` where this model needs {now}: "
                "it belongs to another model"
            )


NORM_ROW = 1024  # numbers in a row; a row's norm is computed in the gradient's precision, rows are summed in float64

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
    """Parameters and their updates: one interface for replicated parameters and for shards.

    Both save the same weights and state: weights by name; Adam's step, and vectors of moments in the order of `layout`.
    All processes must call each method together.
    """

    layout: Layout
    lockstep: bool  # whether all processes must compute the same number of micro-batches

    def zero_gradient(self) -> None:
        """Sets all gradients to zero."""

    def all_reduce_gradient(self) -> None:
        """Sums the gradient over all processes."""

    def norm(self) -> Float[Tensor, ""]:
        """Norm of the whole gradient."""

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiplies the gradient by `factor`."""

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """Takes one step at `rate`; changes nothing if the gradient is not `finite`."""

    def weights(self) -> dict[str, Tensor]:
        """The parameters by name, whole and on the CPU; a shared parameter occurs once."""

    def state(self) -> dict[str, Tensor]:
        """The step and the moments, whole and on the CPU, on rank zero; an empty dictionary on other ranks."""

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError if a saved state belongs to a different model."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Loads the weights of rank zero into all processes."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Loads the state of rank zero into all processes; raises ValueError if it belongs to a different model."""


class FlatOptimiser(ABC):
    """The parameters of `model` in one buffer, which every process holds whole; a subclass updates them."""

    lockstep = False

    def __init__(self, model: nn.Module, group: ProcessGroup = SINGLE_PROCESS, first: Sequence[str] = ()) -> None:
        self._model, self._group, self.layout = model, group, Layout(model, first)
        parameters = dict(model.named_parameters())
        self.vector = next(iter(parameters.values())).new_zeros(self.layout.size)
        self.gradient = torch.zeros_like(self.vector)
        weights, gradients = self.layout.views(self.vector), self.layout.views(self.gradient)
        for name, parameter in parameters.items():
            weights[name].copy_(parameter.detach())
            parameter.data, parameter.grad = weights[name], gradients[name]

    @abstractmethod
    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """See `Optimiser.update`."""

    @abstractmethod
    def own_state(self) -> dict[str, Tensor]:
        """The tensors of the state themselves, not copies, by the names under which they are saved."""

    def zero_gradient(self) -> None:
        """See `Optimiser.zero_gradient`."""
        self.gradient.zero_()

    def all_reduce_gradient(self) -> None:
        """See `Optimiser.all_reduce_gradient`; the order of summation depends only on the number of processes."""
        self._group.all_reduce(self.gradient)

    def norm(self) -> Float[Tensor, ""]:
        """See `Optimiser.norm`."""
        # A single float32 norm over the whole vector would lose small numbers: 0.5 % of the norm at 63 million numbers.
        whole = len(self.gradient) // NORM_ROW * NORM_ROW
        rows, rest = self.gradient[:whole].view(-1, NORM_ROW), self.gradient[whole:]
        norms = torch.cat([torch.linalg.vector_norm(rows, dim=1), torch.linalg.vector_norm(rest).view(1)])
        return norms.double().norm().to(self.gradient.dtype)

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """See `Optimiser.scale`."""
        self.gradient.mul_(factor)

    def weights(self) -> dict[str, Tensor]:
        """See `Optimiser.weights`."""
        return {name: weight.detach().to("cpu", copy=True) for name, weight in self._model.named_parameters()}

    def state(self) -> dict[str, Tensor]:
        """See `Optimiser.state`."""
        if not self._group.is_rank_zero:
            return {}
        return {name: tensor.to("cpu", copy=True) for name, tensor in self.own_state().items()}

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Optimiser.check_state`."""
        check_shapes(state, {name: tensor.shape for name, tensor in self.own_state().items()}, "the optimiser's state")

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See `Optimiser.load_weights`."""
        if self._group.is_rank_zero:
            for name, view in self.layout.views(self.vector).items():
                view.copy_(weights[name])
        self._group.broadcast(self.vector)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Optimiser.load_state`."""
        own = self.own_state()
        if self._group.is_rank_zero:
            self.check_state(state)
            for name, tensor in own.items():
                tensor.copy_(state[name])
        self._group.broadcast(*(own[name] for name in sorted(own)))


class FlatAdam(FlatOptimiser):
    """Adam over all parameters of `model`."""

    def __init__(self, model: nn.Module, spec: Adam, group: ProcessGroup = SINGLE_PROCESS) -> None:
        super().__init__(model, group)
        self._adam = FusedAdam([self.vector], spec)

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """See `Optimiser.update`."""
        self._adam.update([self.gradient], rate, finite)

    def own_state(self) -> dict[str, Tensor]:
        """See `FlatOptimiser.own_state`."""
        return self._adam.state[0]


class FusedAdam:
    """Torch's fused Adam over some tensors, each with its own state: the step and the moments.

    The class `torch.optim.Adam` does the same, but imports torch's compiler, which takes three seconds.
    """

    def __init__(self, tensors: Sequence[Tensor], spec: Adam) -> None:
        self._tensors, self._spec = list(tensors), spec
        # Allocated before the first step, so that a memory check includes the moments.
        self.state = [
            {"step": torch.zeros((), device=tensor.device), **{name: torch.zeros_like(tensor) for name in MOMENTS}}
            for tensor in tensors
        ]

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], rate: float, finite: Bool[Tensor, ""]) -> None:
        """Takes one step at `rate`, unless a gradient is not `finite`; needs no device synchronisation."""
        steps, means, squares = ([state[name] for state in self.state] for name in ("step", *MOMENTS))
        beta1, beta2 = self._spec.betas
        adam(
            self._tensors, list(gradients), means, squares, [], steps, lr=rate, beta1=beta1, beta2=beta2,
            eps=self._spec.epsilon, weight_decay=0.0, amsgrad=False, maximize=False, fused=True,
            found_inf=(~finite).float(),  # the kernel skips the step where this is 1
        )  # fmt: skip
