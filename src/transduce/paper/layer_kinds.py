"""The kinds of layers in Table 1, each reduced to its mixing operation.

The layers have neither projections nor a feed-forward network.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.attention import FusedCore
from transduce.model.attention_scores import DotProduct
from transduce.model.local_attention import LocalAttention, NeighbourAttention
from transduce.paper.models.cells import PlainCell, run_cell
from transduce.paper.models.convolution_mixers import Convolution, SeparableConvolution

States = Float[Tensor, "batch length d_model"]


class Shape(NamedTuple):
    """The sizes of a layer: length n, width d, kernel width k, and r neighbours on each side.

    In the paper, r counts the neighbours on both sides.
    """

    n: int
    d: int
    k: int = 3
    r: int = 16


class LayerKind(NamedTuple):
    """A kind of layer, with the costs that the paper states and a function that builds its mixing operation."""

    name: str
    complexity: str  # for example O(k·n·d²)
    sequential: str
    path: str
    build: Callable[[Shape], nn.Module]
    both_ways: bool = True  # False if a position sees only earlier positions

    @property
    def powers(self) -> dict[str, float]:
        """The exponent of each variable in the complexity."""
        factors = self.complexity.removeprefix("O(").removesuffix(")").split("·")
        return {factor[0]: 2 if factor.endswith("²") else 1 for factor in factors}


class SelfAttention(nn.Module):
    """Computes softmax(x xᵀ / √d) x."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.core, self.compatibility = FusedCore(), DotProduct(shape.d**-0.5)

    def forward(self, states: States) -> States:
        """Applies a single head whose queries, keys and values are the hidden states themselves."""
        head = states.unsqueeze(1)
        mixed: Tensor = self.core(self.compatibility, head, head, head, None, False, 0.0)
        return mixed.squeeze(1)


class NeighbourMixing(NeighbourAttention):
    """Self-attention to r neighbours on each side, whose queries, keys and values are the hidden states themselves."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(LocalAttention(heads=1, d_k=shape.d, d_v=shape.d, neighbours=shape.r), shape.d)
        for projection in ("query", "output"):  # projections are not part of mixing
            self.register_module(projection, nn.Identity())
        self.register_module("key_value", KeysAndValues())

    def forward(self, states: States) -> States:  # type: ignore[override]
        """Mixes whole sentences without a mask."""
        return self.mix(states, None, causal=False)


class KeysAndValues(nn.Module):
    """Replaces the projection to keys and values."""

    def forward(self, states: States) -> Tensor:
        """Concatenates the hidden states with themselves, so that they serve as keys and as values."""
        return torch.cat([states, states], dim=-1)


class Recurrence(nn.Module):
    """Computes h_t = tanh(W_h h_{t−1} + x_t).

    The input is not projected, because the projection is not part of mixing.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.cell = PlainCell(shape.d, shape.d)
        self.cell.register_module("from_input", nn.Identity())

    def forward(self, states: States) -> States:
        """Applies the cell to one position after another."""
        return run_cell(self.cell, states, self.cell.begin(len(states), states))[0]

    def apply_layer(self, states: States, below: int) -> States:
        """Applies one step of the recurrence at every position, starting from the state at the previous position."""
        earlier = nn.functional.pad(states, (0, 0, 1, 0))[:, :-1]
        return self.cell.advance(states.flatten(0, 1), (earlier.flatten(0, 1),))[0].view_as(states)


class UnmaskedConvolution(nn.Module):
    """Applies a convolutional mixer without a mask, as a whole or in part.

    `part` is `whole`, `depthwise` or `pointwise`.
    """

    def __init__(self, spec: Convolution | SeparableConvolution, d_model: int, part: str) -> None:
        super().__init__()
        self.mixer, self.part = spec.build(d_model), part

    def forward(self, states: States) -> States:
        """Applies the mixer or the selected part of it."""
        if self.part == "depthwise":
            kernel = self.mixer.kernel
            padded = nn.functional.pad(states.transpose(1, 2), ((kernel - 1) // 2, kernel // 2))
            mixed: Tensor = self.mixer.convolution(padded).transpose(1, 2)
            return mixed
        if self.part == "pointwise":
            projected: Tensor = self.mixer.point(states)
            return projected
        return self.mixer.mix(states, None, causal=False)


class DilatedConvolution(nn.Module):
    """A causal convolution from a stack with dilations 1, k, k², …, as in ByteNet's decoder."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(shape.d, shape.d, shape.k)
        self.kernel = shape.k

    def apply_layer(self, states: States, below: int) -> States:
        """Applies the layer of the stack that has `below` layers beneath it."""
        dilation = self.kernel**below
        padded = nn.functional.pad(states.transpose(1, 2), ((self.kernel - 1) * dilation, 0))
        mixed = nn.functional.conv1d(padded, self.convolution.weight, self.convolution.bias, dilation=dilation)
        return mixed.transpose(1, 2)

    def forward(self, states: States) -> States:
        """Applies the lowest layer; all layers have the same cost, because the dilation does not affect it."""
        return self.apply_layer(states, 0)


def _convolution(part: str, separable: bool) -> Callable[[Shape], nn.Module]:
    """Returns a function that builds a convolutional mixer or a part of it."""
    spec = SeparableConvolution if separable else Convolution
    return lambda shape: UnmaskedConvolution(spec(kernel=shape.k), shape.d, part)


SELF_ATTENTION = LayerKind("self-attention", "O(n²·d)", "O(1)", "O(1)", SelfAttention)
RECURRENT = LayerKind("recurrent", "O(n·d²)", "O(n)", "O(n)", Recurrence, both_ways=False)
CONVOLUTION = LayerKind(
    "convolution, contiguous", "O(k·n·d²)", "O(1)", "O(n/k)", _convolution("whole", separable=False)
)
DILATED_CONVOLUTION = LayerKind(
    "convolution, dilated", "O(k·n·d²)", "O(1)", "O(log_k n)", DilatedConvolution, both_ways=False
)
SEPARABLE_BY_FEATURE = LayerKind(
    "separable convolution: by feature", "O(k·n·d)", "O(1)", "O(n/k)", _convolution("depthwise", separable=True)
)
SEPARABLE_BY_POSITION = LayerKind(
    "separable convolution: by position", "O(n·d²)", "O(1)", "", _convolution("pointwise", separable=True)
)
NEIGHBOURS = LayerKind("self-attention, r neighbours", "O(r·n·d)", "O(1)", "O(n/r)", NeighbourMixing)

KINDS = [
    SELF_ATTENTION,
    RECURRENT,
    CONVOLUTION,
    DILATED_CONVOLUTION,
    SEPARABLE_BY_FEATURE,
    SEPARABLE_BY_POSITION,
    NEIGHBOURS,
]
"""The rows of Table 1; separable convolutions (section 4) take up two of them."""


def longest_path(kind: LayerKind, shape: Shape) -> int | None:
    """Returns the number of layers needed to connect all pairs of positions, or None if some stay unconnected.

    Gradients show which positions a single layer connects. These connections are composed layer by layer, until all
    pairs of positions are connected or, if positions only see earlier ones, all pairs in the lower triangle.
    """
    operation = kind.build(shape).double()
    wanted = torch.ones(shape.n, shape.n, dtype=torch.bool)
    if not kind.both_ways:
        wanted = wanted.tril()
    connected = torch.eye(shape.n, dtype=torch.bool)
    layers = 0
    while True:
        # A gradient shows which positions the operation of this layer connects to each position.
        states = torch.randn(1, shape.n, shape.d, dtype=torch.float64, requires_grad=True)
        mixed: Tensor
        if isinstance(operation, Recurrence | DilatedConvolution):
            mixed = operation.apply_layer(states, layers)
        else:  # the same in every layer
            mixed = operation(states)
        sizes = mixed.square().sum((0, 2))
        gradients = [torch.autograd.grad(size, states, retain_graph=True)[0][0] for size in sizes]
        relation = torch.stack(gradients).abs().sum(-1) > 0
        extended = (relation.float() @ connected.float()) > 0
        layers += 1
        if bool((extended | ~wanted).all()):
            return layers
        if bool((extended == connected).all()):
            return None
        connected = extended
