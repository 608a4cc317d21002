"""One vector of all parameters of a model: where each parameter lies in it, and whether saved tensors fit."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALIGNMENT = 16  # elements: a matrix that begins at a cache line is multiplied faster


class Layout:
    """Where each parameter of a model lies in one vector of all parameters; those named `first` lie there first."""

    def __init__(self, model: nn.Module, first: Sequence[str] = ()) -> None:
        parameters = dict(model.named_parameters())
        self.shapes = {name: parameters[name].shape for name in dict.fromkeys([*first, *parameters])}
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
        check_shapes(weights, self.shapes, "the saved model")


def check_shapes(tensors: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], what: str) -> None:
    """Raises ValueError where tensors have other names or shapes than `shapes`, or are no floating-point numbers."""
    saved = {name: tensor.shape for name, tensor in tensors.items() if tensor.is_floating_point()}
    for name in {**shapes, **tensors}:
        if saved.get(name) != shapes.get(name):
            before, now = (str(list(each[name])) if name in each else "none" for each in (saved, shapes))
            raise ValueError(
                f"{what} has numbers of shape {before} for `{name}` where this model needs {now}: "
                "it belongs to another model"
            )
