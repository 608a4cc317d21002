"""Muon for the matrices of linear maps, and Adam for everything else: embeddings, biases, norms.

Adam scales each number of a gradient individually. Muon takes the mean gradient of a matrix and makes its singular
values equal, so that rare directions count as much as frequent ones.
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

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of Jordan et al.: singular values come close to 1 in a few iterations
ITERATIONS = 5


class Muon(Spec):
    """Muon (Jordan et al. 2024) for the matrices of linear maps, with weight decay and Adam's rates (Liu et al. 2025).

    Adam with its defaults updates everything else.
    """

    kind: Literal["muon"] = "muon"
    momentum: Decay = Field(default=0.95, description="Decay of a matrix's mean gradient.")
    scale: float = Field(
        default=0.2, gt=0, description="Root mean square of a matrix's update, in multiples of the rate."
    )
    weight_decay: float = Field(
        default=0.1, ge=0, description="A step multiplies matrices by 1 − rate · `weight_decay`."
    )


class FlatMuon(FlatOptimiser):
    """Muon for the matrices of `model`, which come first in the buffer, and Adam for everything else.

    Each process updates its share of the matrices, and only that process keeps their momentum up to date. Raises
    ValueError if the model has no linear maps.
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
    """Builds the optimiser for a model that every process holds in full."""
    return FlatMuon(model, spec, group) if isinstance(spec, Muon) else FlatAdam(model, spec, group)


class EqualMatrices(NamedTuple):
    """Matrices of the same shape in the buffer, with gradients and momentum, each `[matrices, rows, columns]`."""

    spec: Muon
    weights: Float[Tensor, "matrices rows columns"]
    gradient: Float[Tensor, "matrices rows columns"]
    momentum: Float[Tensor, "matrices rows columns"]

    def update(self, rate: float, finite: Bool[Tensor, ""]) -> None:
        """Takes one step of Muon with Nesterov momentum; changes nothing if the gradient is not `finite`."""
        momentum = self.momentum.lerp(self.gradient, 1 - self.spec.momentum)
        step = orthogonal(self.gradient.lerp(momentum, self.spec.momentum))
        # The mean square of an orthogonal matrix is 1 / max(rows, columns).
        step *= rate * self.spec.scale * max(step.shape[1:]) ** 0.5
        step.add_(self.weights, alpha=rate * self.spec.weight_decay)
        self.weights.sub_(torch.where(finite, step, 0.0))
        self.momentum.copy_(torch.where(finite, momentum, self.momentum))


def _matrices(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yields the weights of linear maps by name, each only once."""
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)}
    yield from ((name, parameter) for name, parameter in model.named_parameters() if id(parameter) in linear)


def _shares(layout: Layout, matrices: Sequence[str], size: int) -> list[list[str]]:
    """Divides matrices, in their order in the buffer, into `size` shares that take about the same time."""
    shapes = [layout.shapes[name] for name in matrices]
    work = [rows * columns * min(rows, columns) for rows, columns in shapes]
    whole = sum(work)
    shares: list[list[str]] = [[] for _ in range(size)]
    for name, done, own in zip(matrices, accumulate(work), work, strict=True):
        shares[int((done - own / 2) / whole * size)].append(name)  # where the middle of its work lies
    return shares


def _equal_matrices(layout: Layout, share: Sequence[str], spec: Muon, *vectors: Tensor) -> Iterator[EqualMatrices]:
    """Yields the matrices of a share as views of vectors that hold all parameters.

    Matrices of the same shape are yielded together.
    """
    for shape, same in groupby(share, key=lambda name: layout.shapes[name]):
        members = list(same)
        start, size = layout.slices[members[0]].start, shape.numel()
        # The layout repeats the same gap between matrices of one shape; a single matrix has no gap.
        stride = (layout.slices[members[-1]].start - start) // max(1, len(members) - 1) or size
        strides = (stride, shape[1], 1)
        yield EqualMatrices(spec, *(vector.as_strided((len(members), *shape), strides, start) for vector in vectors))


def orthogonal(matrices: Float[Tensor, "matrices rows columns"]) -> Float[Tensor, "matrices rows columns"]:
    """Returns, for each matrix U S Vᵀ, a matrix close to U Vᵀ, with singular values between about 0.7 and 1.2.

    Newton–Schulz iterations: X ← aX + (bA + cA²)X with A = XXᵀ. Singular values near 0 stay small.
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
