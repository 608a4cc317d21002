"""Matrix multiplication in int8 with torch (dynamic quantisation), for models that have no compiled code.

`cpu_stepper` decides which models use it. A matrix W is stored as integers from −127 to 127 with one scale for each
row. Hidden states are quantised at each multiplication, also with one scale for each row. Because no scale depends on
more than one row, a translation does not depend on the other sentences of its batch. Sums are computed exactly, in
int32. Some processors cannot sum products with 8-bit weights exactly; on these, weights have 7 bits.
"""

import copy
from functools import cache
from typing import TypeVar

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from transduce.model.readout import Readout
from transduce.model.translation_model import TranslationModel

Module = TypeVar("Module", bound=nn.Module)

LARGEST = 127  # largest magnitude of an int8 weight
LARGEST_OF_SEVEN_BITS = 64  # 2 · 255 · 64 is less than 2¹⁵
ZERO = 128  # unsigned byte that represents 0
ROUNDING = 1.5 * 2**23  # float32 numbers of this size have no fractional bits


class Int8Linear(nn.Module):
    """A linear layer x Wᵀ + b with x and W in int8.

    Each row of W is scaled so that its largest weight becomes `largest`, which is `largest_weight()` by default.
    """

    def __init__(
        self,
        weight: Float[Tensor, "outputs inputs"],
        bias: Float[Tensor, " outputs"] | None,
        largest: int | None = None,
    ) -> None:
        super().__init__()
        scales = weight.abs().amax(1).clamp(min=torch.finfo(weight.dtype).tiny) / (largest or largest_weight())
        quantised = (weight / scales.unsqueeze(1)).round().to(torch.int8)
        self.inputs, self.outputs = weight.shape[1], weight.shape[0]
        self.weight = torch.ops.onednn.qlinear_prepack(quantised, None)
        self.scales = scales.float()
        self.zeros = torch.zeros(self.outputs, dtype=torch.int64)
        self.bias = None if bias is None else bias.detach()

    def forward(self, states: Float[Tensor, "*rows inputs"]) -> Float[Tensor, "*rows outputs"]:
        """Computes x Wᵀ + b for float32 states x; the result is float32 too."""
        rows = states.reshape(-1, self.inputs)
        largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))
        scales = largest.div_(LARGEST).clamp_(min=torch.finfo(rows.dtype).tiny)
        # The processor multiplies unsigned bytes by signed bytes, so `ZERO` is added to the states. Adding `ROUNDING`
        # rounds them to integers, and the lowest byte of the sum is then the quantised number.
        shifted = (rows * scales.reciprocal()).add_(ROUNDING + ZERO)
        scaled = self.product(shifted.view(torch.int32).to(torch.uint8)).mul_(scales)
        if self.bias is not None:
            scaled.add_(self.bias)  # added separately, because torch's fused addition is not vectorised
        return scaled.view(*states.shape[:-1], self.outputs)

    def product(self, quantised: UInt8[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Multiplies quantised states, in which `ZERO` represents 0, by W, and applies the scales of W.

        The caller multiplies the result by the scales of the states, and adds the bias.
        """
        return torch.ops.onednn.qlinear_pointwise(
            quantised, 1.0, ZERO, self.weight, self.scales, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )


@cache
def largest_weight() -> int:
    """Returns the largest magnitude of int8 weights for which this processor's products are exact.

    It is `LARGEST`, or `LARGEST_OF_SEVEN_BITS` if a trial multiplication is inexact. An x86 processor without VNNI adds
    two products in 16 bits, where the sum may saturate.
    """
    size = 64
    product = Int8Linear(torch.ones(size, size), None, LARGEST).product(torch.full((size, size), 255).to(torch.uint8))
    return LARGEST if float((product - (255 - ZERO) * size).abs().max()) < 1 else LARGEST_OF_SEVEN_BITS


class Int8Readout(nn.Module):
    """Computes the log-probabilities of the next token with an int8 multiplication; it cannot compute a loss."""

    def __init__(self, weight: Float[Tensor, "vocabulary d_model"], bias: Float[Tensor, " vocabulary"] | None) -> None:
        super().__init__()
        self.project = Int8Linear(weight, bias)

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocabulary"]:
        """Returns the log-probabilities in float32."""
        return self.project(states).log_softmax(-1)


@torch.no_grad()
def quantise(model: TranslationModel) -> TranslationModel:
    """Returns a copy of `model`, in evaluation mode, whose linear layers and readout are int8.

    The copy shares all other parameters with `model`.
    """
    quantised = _share_parameters(model)
    for module in list(quantised.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child.weight, child.bias))
            elif isinstance(child, Readout):
                setattr(module, name, Int8Readout(child.weight, child.bias))
    return quantised


def _share_parameters(module: Module) -> Module:
    """Returns a copy of a module, in evaluation mode, that shares its parameters and buffers with the original."""
    tensors = (*module.parameters(), *module.buffers())
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors}).eval()
