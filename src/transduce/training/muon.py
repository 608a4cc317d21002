"""The Muon optimiser for the weight matrices of linear layers.

Adam scales each element of a gradient separately. Muon instead makes the singular values of the averaged gradient of a
matrix approximately equal, so that rare directions contribute as much to the update as frequent ones. All other
parameters, such as embeddings, biases and layer normalisation, are updated by Adam.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn

from transduce.runtime.device import has_fast_bfloat16
from transduce.runtime.distributed import SINGLE_PROCESS, ProcessGroup
from transduce.settings import Spec
from transduce.training.optimiser import Adam, Decay, FlatAdam, FlatOptimiser, FusedAdam, Layout

# Coefficients of the Newton–Schulz iteration by Jordan et al., with which singular values approach 1 in a few
# iterations.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


class Muon(Spec):
    """Muon (Jordan et al. 2024) for the weight matrices of linear layers, and Adam for all other parameters.

    Following Liu et al. (2025), the updates include weight decay, and are scaled so that Muon works with the same
    learning rates as Adam.
    """

    kind: Literal["muon"] = "muon"
    momentum: Decay = Field(
        default=0.95, description="Decay rate of the running average of the gradient (Nesterov momentum)."
    )
    scale: float = Field(
        default=0.2, gt=0, description="Root mean square of a matrix's update, as a multiple of the learning rate."
    )
    weight_decay: float = Field(
        default=0.1,
        ge=0,
        description="Decoupled weight decay: each step multiplies the matrices by 1 − learning rate · `weight_decay`.",
    )


class FlatMuon(FlatOptimiser):
    """Updates the weight matrices of linear layers in `model` with Muon, and all other parameters with Adam.

    The matrices are at the beginning of the buffer. Each process updates only its share of the matrices and of their
    momentum; the updated matrices are then exchanged between the processes. The constructor raises ValueError if the
    model has no linear layers.
    """

    def __init__(self, model: nn.Module, spec: Muon, group: ProcessGroup = SINGLE_PROCESS) -> None:
        shapes = {name: parameter.shape for name, parameter in _matrices(model)}
        if not shapes:
            raise ValueError("training.optimiser: Muon is for linear maps, and this model has none; take `kind: adam`")
        matrices = sorted(shapes, key=lambda name: shapes[name])
        super().__init__(model, group, matrices)
        others = [span.start for name, span in self.layout.slices.items() if name not in shapes]
        end = min(others, default=self.layout.size)
        self._momentum = torch.zeros_like(self.vector[:end])
        shares = _shares(self.layout, matrices, group.size)
        slices = self.layout.slices
        self._shares = [slice(slices[own[0]].start, slices[own[-1]].stop) if own else slice(0, 0) for own in shares]
        buffers = self.vector, self.gradient, self._momentum
        self._matrices = list(_equal_matrices(self.layout, shares[group.rank], spec, *buffers))
        self._gradients_of_others = self.gradient[end:]
        self._adam = FusedAdam([self.vector[end:]], Adam())

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """See `Optimiser.update`."""
        for matrices in self._matrices:
            matrices.update(rate, finite)
        self._group.all_gather_parts(self.vector[share] for share in self._shares)
        self._adam.update([self._gradients_of_others], rate, finite)

    def state(self) -> dict[str, Tensor]:
        """See `Optimiser.state`."""
        self._group.all_gather_parts(self._momentum[share] for share in self._shares)
        return super().state()

    def own_state(self) -> dict[str, Tensor]:
        """See `FlatOptimiser.own_state`."""
        return {**self._adam.state[0], "momentum": self._momentum}


def flat_optimiser(model: nn.Module, spec: Adam | Muon, group: ProcessGroup = SINGLE_PROCESS) -> FlatOptimiser:
    """Builds the optimiser that `spec` describes for a model that is replicated on every process."""
    return FlatMuon(model, spec, group) if isinstance(spec, Muon) else FlatAdam(model, spec, group)


class EqualMatrices(NamedTuple):
    """A stack of matrices with the same shape, with their gradients and momentum, as views of the flat buffers."""

    spec: Muon
    weights: Float[Tensor, "matrices rows columns"]
    gradient: Float[Tensor, "matrices rows columns"]
    momentum: Float[Tensor, "matrices rows columns"]

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """Updates the matrices with Muon and Nesterov momentum; changes nothing if the gradient is not `finite`."""
        momentum = self.momentum.lerp(self.gradient, 1 - self.spec.momentum)
        step = orthogonal(self.gradient.lerp(momentum, self.spec.momentum))
        # The mean square of an orthogonal matrix is 1 / max(rows, columns).
        step *= rate * self.spec.scale * max(step.shape[1:]) ** 0.5
        step.add_(self.weights, alpha=rate * self.spec.weight_decay)
        self.weights.sub_(torch.where(finite, step, 0.0))
        self.momentum.copy_(torch.where(finite, momentum, self.momentum))


def _matrices(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yields the name and the weight of each linear layer; a shared weight occurs only once."""
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)}
    yield from ((name, parameter) for name, parameter in model.named_parameters() if id(parameter) in linear)


def _shares(layout: Layout, matrices: Sequence[str], size: int) -> list[list[str]]:
    """Divides the matrices, in the order of the buffer, into `size` shares that take about the same time to update."""
    shapes = [layout.shapes[name] for name in matrices]
    work = [rows * columns * min(rows, columns) for rows, columns in shapes]
    whole = sum(work)
    shares: list[list[str]] = [[] for _ in range(size)]
    for name, done, own in zip(matrices, accumulate(work), work, strict=True):
        shares[int((done - own / 2) / whole * size)].append(name)  # the share in which the middle of its work lies
    return shares


def _equal_matrices(layout: Layout, share: Sequence[str], spec: Muon, *vectors: Tensor) -> Iterator[EqualMatrices]:
    """Groups consecutive matrices of a share by their shape, and yields each group as one stack of matrices.

    `vectors` are the flat buffers with all parameters, their gradients and the momentum; the stacks are views of them.
    """
    for shape, same in groupby(share, key=lambda name: layout.shapes[name]):
        members = list(same)
        start, size = layout.slices[members[0]].start, shape.numel()
        # Matrices of the same shape are equally spaced in the buffer.
        stride = (layout.slices[members[-1]].start - start) // max(1, len(members) - 1) or size
        strides = (stride, shape[1], 1)
        yield EqualMatrices(spec, *(vector.as_strided((len(members), *shape), strides, start) for vector in vectors))


def orthogonal(matrices: Float[Tensor, "matrices rows columns"]) -> Float[Tensor, "matrices rows columns"]:
    """Approximately orthogonalises each matrix with Newton–Schulz iterations.

    For a matrix with the singular value decomposition U S Vᵀ, returns a matrix close to U Vᵀ, whose singular values are
    between about 0.7 and 1.2, except for singular values near 0, which stay small. An iteration computes
    X ← aX + (bA + cA²)X with A = XXᵀ.
    """
    dtype = torch.bfloat16 if has_fast_bfloat16(matrices.device) else matrices.dtype
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[1] > matrices.shape[2]
    step = (matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(dtype)
    step = step.mT.contiguous() if is_tall else step
    for _ in range(ITERATIONS):
        gram = step @ step.mT
        step = torch.baddbmm(step, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), step, beta=a)
    return (step.mT if is_tall else step).to(matrices.dtype)
