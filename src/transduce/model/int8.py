"""Matrix products in int8 (dynamic quantisation) by torch, for models without compiled code (`cpu_stepper`).

A matrix W is stored as integers from −127 to 127 with one scale for each row; states are quantised at each
multiplication, also with one scale for each row. No scale depends on more than one row, so a sentence's translation
does not depend on the other sentences of its batch. Sums are exact, in int32. Weights have 7 bits on processors whose
sums of products with 8-bit weights are not exact.
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

LARGEST = 127  # of an int8 weight
LARGEST_OF_SEVEN_BITS = 64  # 2 · 255 · 64 is less than 2¹⁵
ZERO = 128  # unsigned byte that represents 0
ROUNDING = 1.5 * 2**23  # float32 numbers of this size have no bits for fractions


class Int8Linear(nn.Module):
    """x Wᵀ + b with x and W in int8; the largest weight of a row becomes `largest`, by default `largest_weight()`."""

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
        """Computes x Wᵀ + b in float32 for states x in float32."""
        rows = states.reshape(-1, self.inputs)
        largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))
        scales = largest.div_(LARGEST).clamp_(min=torch.finfo(rows.dtype).tiny)
        # Processors multiply unsigned bytes by signed ones. Adding ROUNDING rounds to integers, and the lowest byte of
        # the sum is the quantised number.
        shifted = (rows * scales.reciprocal()).add_(ROUNDING + ZERO)
        scaled = self.product(shifted.view(torch.int32).to(torch.uint8)).mul_(scales)
        if self.bias is not None:
            scaled.add_(self.bias)  # a separate call, because torch's fused one is not vectorised
        return scaled.view(*states.shape[:-1], self.outputs)

    def product(self, quantised: UInt8[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Multiplies quantised states, in which `ZERO` represents 0, by W; the caller applies row scales and bias."""
        return torch.ops.onednn.qlinear_pointwise(
            quantised, 1.0, ZERO, self.weight, self.scales, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )


@cache
def largest_weight() -> int:
    """Returns `LARGEST` if this processor's products with weights that large are exact, else `LARGEST_OF_SEVEN_BITS`.

    A trial multiplication decides: an x86 processor without VNNI adds two products in 16 bits, and the sum saturates.
    """
    size = 64
    product = Int8Linear(torch.ones(size, size), None, LARGEST).product(torch.full((size, size), 255).to(torch.uint8))
    return LARGEST if float((product - (255 - ZERO) * size).abs().max()) < 1 else LARGEST_OF_SEVEN_BITS


class Int8Readout(nn.Module):
    """Log-probabilities of the next token from an int8 multiplication; it cannot compute a loss."""

    def __init__(self, weight: Float[Tensor, "vocabulary d_model"], bias: Float[Tensor, " vocabulary"] | None) -> None:
        super().__init__()
        self.project = Int8Linear(weight, bias)

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocabulary"]:
        """Computes log-probabilities in float32."""
        return self.project(states).log_softmax(-1)


@torch.no_grad()
def quantise(model: TranslationModel) -> TranslationModel:
    """Copies `model` with linear maps and readout in int8; the copy shares the other parameters."""
    quantised = _share_parameters(model)
    for module in list(quantised.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child.weight, child.bias))
            elif isinstance(child, Readout):
                setattr(module, name, Int8Readout(child.weight, child.bias))
    return quantised


def _share_parameters(module: Module) -> Module:
    """Copies the modules, in evaluation mode; parameters and buffers are the same tensors."""
    tensors = (*module.parameters(), *module.buffers())
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors}).eval()
