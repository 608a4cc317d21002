"""The kinds of layers that Table 1 compares, each as the mixing alone: no projections, no feed-forward network."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transduce.model.attention import FusedCore
from transduce.model.attention_scores import DotProduct
from transduce.model.baselines.cells import PlainCell, run_cell
from transduce.model.mixers.convolution import Convolution, SeparableConvolution
from transduce.model.mixers.local import LocalAttention, NeighbourAttention

States = Float[Tensor, "batch length d_model"]


class Shape(NamedTuple):
    """Length n, width d, kernel k, neighbours r."""

    n: int
    d: int
    k: int = 3
    r: int = 16


class Kind(NamedTuple):
    """A kind of layer: what the paper states of it, and the operation itself."""

    name: str
    stated: str
    powers: Mapping[str, float]
    sequential: str
    path: str
    build: Callable[[Shape], nn.Module]
    reach: Callable[[nn.Module, States, int], Tensor]  # (operation, states, how many went before) → what it gives
    both_ways: bool = True


class SelfAttention(nn.Module):
    """softmax(x xᵀ / √d) x."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.core, self.compatibility = FusedCore(), DotProduct(shape.d**-0.5)

    def forward(self, states: States) -> States:
        """One head over the states themselves."""
        head = states.unsqueeze(1)
        mixed: Tensor = self.core(self.compatibility, head, head, head, None, False, 0.0)
        return mixed.squeeze(1)


class NeighbourMixing(NeighbourAttention):
    """The same in a band, the states themselves being queries, keys and values."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(LocalAttention(heads=1, d_k=shape.d, d_v=shape.d, neighbours=shape.r), shape.d)
        self.query = self.join = nn.Identity()  # type: ignore[assignment]  # no map is part of mixing
        self.key_value = Twice()  # type: ignore[assignment]

    def forward(self, states: States) -> States:  # type: ignore[override]
        """Whole sentences, unmasked."""
        return self.mix(states, None, causal=False)


class Twice(nn.Module):
    """The states as keys and as values."""

    def forward(self, states: States) -> Tensor:
        """Side by side."""
        return torch.cat([states, states], dim=-1)


class Recurrence(nn.Module):
    """h_t = tanh(W_h h_{t−1} + x_t): the recurrence without the map of its input, which is no mixing."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.cell = PlainCell(shape.d, shape.d)
        self.cell.from_input = nn.Identity()  # type: ignore[assignment]

    def forward(self, states: States) -> States:
        """A step a position."""
        return run_cell(self.cell, states, self.cell.begin(len(states), states))[0]


class Convolving(nn.Module):
    """A mixer of `transduce.model.mixers.convolution`, unmasked."""

    def __init__(self, spec: Convolution | SeparableConvolution, d_model: int, part: str) -> None:
        super().__init__()
        self.mixer, self.part = spec.build(d_model), part

    def forward(self, states: States) -> States:
        """Both parts, or one."""
        if self.part == "depth":
            kernel = self.mixer.kernel
            padded = nn.functional.pad(states.transpose(1, 2), ((kernel - 1) // 2, kernel // 2))
            mixed: Tensor = self.mixer.convolution(padded).transpose(1, 2)
            return mixed
        if self.part == "point":
            given: Tensor = self.mixer.point(states)
            return given
        return self.mixer.mix(states, None, causal=False)


class Dilated(nn.Module):
    """A stack of convolutions that look back, at places ever further apart: 1, k, k² …, as in a ByteNet's decoder."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(shape.d, shape.d, shape.k)
        self.kernel = shape.k

    def dilated(self, states: States, before: int) -> States:
        """The layer that has `before` such layers below it."""
        distance = self.kernel**before
        padded = nn.functional.pad(states.transpose(1, 2), ((self.kernel - 1) * distance, 0))
        given = nn.functional.conv1d(padded, self.convolution.weight, self.convolution.bias, dilation=distance)
        return given.transpose(1, 2)

    def forward(self, states: States) -> States:
        """The lowest layer: what a layer costs does not depend on the distance."""
        return self.dilated(states, 0)


def _again(operation: nn.Module, states: States, before: int) -> Tensor:
    """The same operation, however many went before."""
    given: Tensor = operation(states)
    return given


def _one_step(operation: nn.Module, states: States, before: int) -> Tensor:
    """One step of the recurrence at every position, each from the state before it."""
    assert isinstance(operation, Recurrence)
    earlier = nn.functional.pad(states, (0, 0, 1, 0))[:, :-1]
    return operation.cell.advance(states.flatten(0, 1), (earlier.flatten(0, 1),))[0].view_as(states)


def _deeper(operation: nn.Module, states: States, before: int) -> Tensor:
    """The layer of a dilated stack at that height."""
    assert isinstance(operation, Dilated)
    return operation.dilated(states, before)


def _convolution(part: str, separable: bool) -> Callable[[Shape], nn.Module]:
    """Builds the mixer, or a part of it."""
    spec = SeparableConvolution if separable else Convolution
    return lambda shape: Convolving(spec(kernel=shape.k), shape.d, part)


KINDS = [
    Kind("self-attention", "O(n²·d)", {"n": 2, "d": 1}, "O(1)", "O(1)", SelfAttention, _again),
    Kind("recurrent", "O(n·d²)", {"n": 1, "d": 2}, "O(n)", "O(n)", Recurrence, _one_step, False),
    Kind(
        "convolution, contiguous",
        "O(k·n·d²)",
        {"k": 1, "n": 1, "d": 2},
        "O(1)",
        "O(n/k)",
        _convolution("both", separable=False),
        _again,
    ),
    Kind("convolution, dilated", "O(k·n·d²)", {"k": 1, "n": 1, "d": 2}, "O(1)", "O(log_k n)", Dilated, _deeper, False),
    Kind(
        "separable convolution: by feature",
        "O(k·n·d)",
        {"k": 1, "n": 1, "d": 1},
        "O(1)",
        "O(n/k)",
        _convolution("depth", separable=True),
        _again,
    ),
    Kind(
        "separable convolution: by position",
        "O(n·d²)",
        {"n": 1, "d": 2},
        "O(1)",
        "",
        _convolution("point", separable=True),
        _again,
    ),
    Kind(
        "self-attention, r neighbours", "O(r·n·d)", {"r": 1, "n": 1, "d": 1}, "O(1)", "O(n/r)", NeighbourMixing, _again
    ),
]


def path(kind: Kind, shape: Shape) -> int | None:
    """The most mixing operations that lie between any two positions, on the shortest way; None where there is no way.

    What an operation lets a position hear is found by gradient; positions are connected after as many operations as
    the product of these relations needs to be full, or its triangle where the operation looks back only.
    """
    operation = kind.build(shape).double()
    wanted = torch.ones(shape.n, shape.n, dtype=torch.bool)
    if not kind.both_ways:
        wanted = wanted.tril()
    known = torch.eye(shape.n, dtype=torch.bool)
    for operations, heard in enumerate(_relations(kind, operation, shape), start=1):
        following = (heard.float() @ known.float()) > 0
        if bool((following | ~wanted).all()):
            return operations
        if bool((following == known).all()):
            return None
        known = following
    raise AssertionError("relations go on for ever")


def _relations(kind: Kind, operation: nn.Module, shape: Shape) -> Iterator[Bool[Tensor, "n n"]]:
    """What each operation after another lets each position hear."""
    before = 0
    while True:
        states = torch.randn(1, shape.n, shape.d, dtype=torch.float64, requires_grad=True)
        given = kind.reach(operation, states, before).square().sum((0, 2))
        rows = [torch.autograd.grad(each, states, retain_graph=True)[0][0].abs().sum(-1) > 0 for each in given]
        yield torch.stack(rows)
        before += 1
