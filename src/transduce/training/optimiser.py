"""The interface of the optimisers, and an implementation of Adam (section 5.3) on a flat buffer.

All parameters are views of a single vector, and all gradients are views of another. Zeroing, all-reducing and scaling
the gradients and updating the parameters therefore take a single operation each, regardless of the number of
parameters.
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

ALIGNMENT = 16  # in elements; matrix multiplication is faster if a matrix begins at a cache line


class Layout:
    """The layout of a model's parameters in a flat vector.

    The parameters named in `first` are at the beginning of the vector, in the given order, followed by all others.
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
        """Returns a view of `vector` for each parameter, with the parameter's shape, by name."""
        return {name: vector[span].view(self.shapes[name]) for name, span in self.slices.items()}

    def parameter_shapes(self) -> list[list[Any]]:
        """Returns the name and shape of each parameter, in the order of the layout, as JSON values."""
        return [[name, list(shape)] for name, shape in self.shapes.items()]

    def check_parameter_shapes(self, saved: list[list[Any]]) -> None:
        """Raises ValueError if the saved names or shapes of the parameters, or their order, differ from this layout.

        `saved` is a list that `parameter_shapes` has returned.
        """
        for before, now in zip_longest(saved, self.parameter_shapes()):
            if before != now:
                raise ValueError(
                    f"the optimiser's state was saved with parameter {before} where this model has {now}: it belongs "
                    "to another model, or to another version of the program"
                )

    def check_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Raises ValueError if the names or shapes of the saved `weights` differ from those of the parameters."""
        check_shapes(weights, self.shapes, "the saved model")


def check_shapes(tensors: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], what: str) -> None:
    """Raises ValueError if the names or shapes of `tensors` differ from `shapes`, or if a tensor is not floating-point.

    `what` describes the tensors in the error message.
    """
    saved = {name: tensor.shape for name, tensor in tensors.items() if tensor.is_floating_point()}
    for name in {**shapes, **tensors}:
        if saved.get(name) != shapes.get(name):
            before, now = (str(list(each[name])) if name in each else "none" for each in (saved, shapes))
            raise ValueError(
                f"{what} has numbers of shape {before} for `{name}` where this model needs {now}: "
                "it belongs to another model"
            )


# The gradient is divided into rows of this many elements to compute its norm. The norm of a row is computed in the
# gradient's precision, and the norms of the rows are combined in float64.
NORM_ROW = 1024

MOMENTS = ("exp_avg", "exp_avg_sq")

Decay = Annotated[float, Field(ge=0, lt=1)]


class Adam(Spec):
    """Adam (Kingma and Ba 2015); the defaults are the paper's."""

    kind: Literal["adam"] = "adam"
    betas: tuple[Decay, Decay] = Field(
        default=(0.9, 0.98), description="Decay rates of the running averages of the gradient and its square."
    )
    epsilon: float = Field(default=1e-9, gt=0, description="Term added to the denominator for numerical stability.")


class Optimiser(Protocol):
    """The interface of an optimiser, which owns the parameters, the gradients and the state of the updates.

    Replicated and sharded optimisers have the same interface, and save the same weights and the same state, so that a
    checkpoint of one can be loaded by the other. The state contains Adam's step count, and moment vectors in the order
    of `layout`. All processes must call each method together.
    """

    layout: Layout
    lockstep: bool  # True if all processes must compute the same number of micro-batches in each step

    def zero_gradient(self) -> None:
        """Sets all gradients to zero."""

    def all_reduce_gradient(self) -> None:
        """Sums the gradients over all processes."""

    def norm(self) -> Float[Tensor, ""]:
        """Returns the norm of the gradient with respect to all parameters."""

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiplies all gradients by `factor`."""

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """Updates the parameters with the learning rate `rate`; changes nothing if the gradient is not `finite`."""

    def weights(self) -> dict[str, Tensor]:
        """Returns copies of all parameters on the CPU, by name.

        The copies are complete even if the parameters are sharded. A parameter that several modules share occurs only
        once.
        """

    def state(self) -> dict[str, Tensor]:
        """Returns a copy of the optimiser's state on the CPU, which is complete even if the parameters are sharded.

        On ranks other than 0, returns an empty dictionary.
        """

    def check_state(self, state: Mapping[str, Tensor]) -> None:
        """Raises ValueError if the saved `state` belongs to a different model."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Loads `weights` on all processes; only the weights passed on rank 0 are used."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Loads `state` on all processes; only the state passed on rank 0 is used.

        Raises ValueError if the state belongs to a different model.
        """


class FlatOptimiser(ABC):
    """Base class of optimisers that keep all parameters of `model` in one buffer, replicated on every process.

    The constructor moves the parameters into the buffer. A subclass implements their update.
    """

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
        """Returns the tensors of the state, not copies of them, by the names under which they are saved."""

    def zero_gradient(self) -> None:
        """See `Optimiser.zero_gradient`."""
        self.gradient.zero_()

    def all_reduce_gradient(self) -> None:
        """See `Optimiser.all_reduce_gradient`. The order of summation depends only on the number of processes."""
        self._group.all_reduce(self.gradient)

    def norm(self) -> Float[Tensor, ""]:
        """See `Optimiser.norm`."""
        # Computing the norm of the whole vector in float32 at once would lose small gradients, and thereby 0.5 % of the
        # norm for a vector of 63 million elements.
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
    """Updates all parameters of `model` with Adam."""

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
    """Applies PyTorch's fused Adam kernel to several tensors, each of which has its own step count and moments.

    `torch.optim.Adam` would compute the same, but it imports PyTorch's compiler, which takes three seconds.
    """

    def __init__(self, tensors: Sequence[Tensor], spec: Adam) -> None:
        self._tensors, self._spec = list(tensors), spec
        # The state is allocated before the first step, so that a memory check takes the moments into account.
        self.state = [
            {"step": torch.zeros((), device=tensor.device), **{name: torch.zeros_like(tensor) for name in MOMENTS}}
            for tensor in tensors
        ]

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], rate: float, finite: Bool[Tensor, ""]) -> None:
        """Updates the tensors with the learning rate `rate`; changes nothing if the gradients are not `finite`.

        Does not synchronise with the device.
        """
        steps, means, squares = ([state[name] for state in self.state] for name in ("step", *MOMENTS))
        beta1, beta2 = self._spec.betas
        adam(
            self._tensors, list(gradients), means, squares, [], steps, lr=rate, beta1=beta1, beta2=beta2,
            eps=self._spec.epsilon, weight_decay=0.0, amsgrad=False, maximize=False, fused=True,
            found_inf=(~finite).float(),  # the kernel skips the step where this is 1
        )  # fmt: skip
