"""Adam (section 5.3) over one flat buffer.

Every parameter is a view of one vector and every gradient a view of another. Clearing, measuring, clipping, reducing
and updating are then one operation each, whatever the number of matrices.
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


class Layout:
    """Where each parameter of a model lies in one vector of all parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
        self.slices: dict[str, slice] = {}
        self.size = 0
        for name, shape in self.shapes.items():
            self.slices[name] = slice(self.size, self.size + shape.numel())
            self.size += -(-shape.numel() // ALIGNMENT) * ALIGNMENT

    def views(self, vector: Float[Tensor, " size"]) -> dict[str, Tensor]:
        """Returns views of a vector, by parameter name and in the parameter's shape."""
        return {name: vector[part].view(self.shapes[name]) for name, part in self.slices.items()}

    def parameter_shapes(self) -> list[list[Any]]:
        """Returns the name and shape of each parameter in their order, as JSON values."""
        return [[name, list(shape)] for name, shape in self.shapes.items()]

    def check_parameter_shapes(self, saved: list[list[Any]] | None) -> None:
        """Raises ValueError where `saved` shapes are of other parameters, or in another order.

        None, from checkpoints of a version that did not save shapes, passes.
        """
        for before, now in zip_longest(saved or self.parameter_shapes(), self.parameter_shapes()):
            if before != now:
                raise ValueError(
                    f"the optimiser's state was saved with parameter {before} where this model has {now}: it belongs "
                    "to another model, or to another version of the program"
                )

    def check_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Raises ValueError where saved weights have other names or shapes than the parameters."""
        _check_shapes(weights, self.shapes, "the saved model")

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError where Adam's state belongs to another model."""
        shapes = {"step": torch.Size(()), **{name: torch.Size((self.size,)) for name in MOMENTS}}
        _check_shapes(state, shapes, "the optimiser's state")

    def empty_state(self) -> dict[str, Tensor]:
        """Returns Adam's state as zeros in its shapes, to receive that of another process."""
        return {"step": torch.zeros(()), **{name: torch.zeros(self.size) for name in MOMENTS}}


class Optimiser(Protocol):
    """Parameters and their updates, the same interface for whole parameters in each process and for shards.

    Saved weights and state are the same too: weights by name; Adam's step and moments, each moment one vector of all
    parameters in the order of `layout`. All processes call a method together.
    """

    layout: Layout
    lockstep: bool  # whether all processes must compute equally many micro-batches

    def zero_gradient(self) -> None:
        """Sets all gradients to zero."""

    def all_reduce_gradient(self) -> None:
        """Sums the gradient over all processes."""

    def norm(self) -> Float[Tensor, ""]:
        """Returns the norm of the gradient."""

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiplies the gradient by `factor`."""

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """Takes one step of Adam at `rate`; changes nothing where the gradient is not `finite`."""

    def weights(self) -> dict[str, Tensor]:
        """Returns the parameters by name, each shared one once, whole and on the CPU."""

    def state(self) -> dict[str, Tensor]:
        """Returns Adam's step and moments, whole and on the CPU, on rank zero; an empty dictionary on other ranks."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Loads the weights of rank zero into all processes."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Loads the state of rank zero into all processes; raises ValueError where it belongs to another model."""


class FlatAdam:
    """Adam over all parameters of `model`, laid out in one buffer; every process has all of them."""

    lockstep = False

    def __init__(self, model: nn.Module, spec: Adam, group: ProcessGroup = SINGLE_PROCESS) -> None:
        self._model, self._group, self.layout = model, group, Layout(model)
        parameters = dict(model.named_parameters())
        self.vector = next(iter(parameters.values())).new_zeros(self.layout.size)
        self.gradient = torch.zeros_like(self.vector)
        weights, gradients = self.layout.views(self.vector), self.layout.views(self.gradient)
        for name, parameter in parameters.items():
            weights[name].copy_(parameter.detach())
            parameter.data, parameter.grad = weights[name], gradients[name]
        self.vector.grad = self.gradient
        self._adam = torch.optim.Adam([self.vector], betas=spec.betas, eps=spec.epsilon, fused=True)
        # Allocated before the first update, so that a check of memory counts the moments.
        moments = {name: torch.zeros_like(self.vector) for name in MOMENTS}
        self._adam.state[self.vector] = {"step": torch.zeros((), device=self.vector.device), **moments}

    def zero_gradient(self) -> None:
        """See `Optimiser.zero_gradient`."""
        self.gradient.zero_()

    def all_reduce_gradient(self) -> None:
        """See `Optimiser.all_reduce_gradient`; the order of the sums depends on the number of processes alone."""
        self._group.all_reduce(self.gradient)

    def norm(self) -> Float[Tensor, ""]:
        """See `Optimiser.norm`."""
        # One float32 norm over the whole vector loses small numbers: 0.5 % at 63 million.
        squares = [part.square().sum(dtype=torch.float64) for part in self.gradient.split(NORM_BLOCK)]
        return torch.stack(squares).sum().sqrt().to(self.gradient.dtype)

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """See `Optimiser.scale`."""
        self.gradient.mul_(factor)

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """See `Optimiser.update`."""
        adam_step(self._adam, rate, finite)

    def weights(self) -> dict[str, Tensor]:
        """See `Optimiser.weights`."""
        return {name: weight.detach().to("cpu", copy=True) for name, weight in self._model.named_parameters()}

    def state(self) -> dict[str, Tensor]:
        """See `Optimiser.state`."""
        if not self._group.is_rank_zero:
            return {}
        return {name: tensor.to("cpu", copy=True) for name, tensor in self._adam.state[self.vector].items()}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See `Optimiser.load_weights`."""
        if self._group.is_rank_zero:
            for name, view in self.layout.views(self.vector).items():
                view.copy_(weights[name])
        self._group.broadcast(self.vector)

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Optimiser.load_state`."""
        if self._group.is_rank_zero:
            self.layout.check_state(state)
        else:
            state = self.layout.empty_state()
        loaded = {name: tensor.to(self.vector.device, copy=True) for name, tensor in state.items()}
        self._group.broadcast(*(loaded[name] for name in sorted(loaded)))
        self._adam.state[self.vector] = loaded


def _check_shapes(tensors: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], what: str) -> None:
    """Raises ValueError where tensors have other names or shapes than `shapes`, or are no floating-point numbers."""
    saved = {name: tensor.shape for name, tensor in tensors.items() if tensor.is_floating_point()}
    for name in {**shapes, **tensors}:
        if saved.get(name) != shapes.get(name):
            before, now = (str(list(each[name])) if name in each else "none" for each in (saved, shapes))
            raise ValueError(
                f"{what} has numbers of shape {before} for `{name}` where this model needs {now}: "
                "it belongs to another model"
            )


def adam_step(adam: torch.optim.Adam, rate: float, finite: Bool[Tensor, ""]) -> None:
    """Takes one step of Adam at `rate`, none where the gradient is not `finite`; needs no device synchronisation."""
    adam.param_groups[0]["lr"] = rate
    # The fused kernel skips the step where this is 1; torch's gradient scaler sets it too.
    adam.found_inf = (~finite).float()  # type: ignore[attr-defined]
    adam.step()
