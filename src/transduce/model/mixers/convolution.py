"""Convolutions as mixers (section 4): a position hears of those in the kernel, and of others through more layers."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.attention import Visible
from transduce.model.kv_cache import DecodingContext, Slots
from transduce.settings import Spec


class Convolution(Spec):
    """Every position from the `kernel` around it, in the decoder the last ones: O(k · n · d²)."""

    kind: Literal["convolution"] = "convolution"
    kernel: int = Field(ge=1)

    def build(self, d_model: int) -> "ConvolutionMixer":
        """The module, for states of width `d_model`."""
        return ConvolutionMixer(self.kernel, d_model, separable=False)

    def products(self, d_model: int, seen: int | float, *, causal: bool = False) -> int | float:
        """Multiplications of a token."""
        return self.kernel * d_model**2


class SeparableConvolution(Spec):
    """A kernel for each feature alone, then a map of all features at each position: O(k · n · d + n · d²)."""

    kind: Literal["separable_convolution"] = "separable_convolution"
    kernel: int = Field(ge=1)

    def build(self, d_model: int) -> "ConvolutionMixer":
        """The module, for states of width `d_model`."""
        return ConvolutionMixer(self.kernel, d_model, separable=True)

    def products(self, d_model: int, seen: int | float, *, causal: bool = False) -> int | float:
        """Multiplications of a token."""
        return self.kernel * d_model + d_model**2


class ConvolutionMixer(nn.Module):
    """A convolution along the sentence, of zeros where there is no token."""

    def __init__(self, kernel: int, d_model: int, *, separable: bool) -> None:
        super().__init__()
        self.kernel = kernel
        self.convolution = nn.Conv1d(d_model, d_model, kernel, groups=d_model if separable else 1, bias=not separable)
        self.point = nn.Linear(d_model, d_model) if separable else nn.Identity()

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Whole sentences."""
        if visible is not None:
            states = states * visible.transpose(1, 2).to(states.dtype)
        before = self.kernel - 1 if causal else (self.kernel - 1) // 2
        padded = functional.pad(states.transpose(1, 2), (before, self.kernel - 1 - before))
        mixed: Tensor = self.point(self.convolution(padded).transpose(1, 2))
        return mixed

    def step(
        self, states: Float[Tensor, "rows new d_model"], past: DecodingContext
    ) -> Float[Tensor, "rows new d_model"]:
        """New tokens, each from itself and those of its hypothesis before it."""
        (written,) = past.cache.extend(past.rows.spread(states).unsqueeze(1))
        places = _last(past.visible, self.kernel)
        # Place 0 is before the sentence.
        inputs = functional.pad(written.squeeze(1), (0, 0, 1, 0))
        chosen = inputs.gather(1, places.flatten(1).unsqueeze(2).expand(-1, -1, inputs.shape[2]))
        windows = chosen.unflatten(1, places.shape[1:]).transpose(2, 3)
        batch, target = windows.shape[:2]
        mixed = self.convolution(windows.flatten(0, 1)).view(batch, target, -1)
        given: Tensor = self.point(past.rows.collect(mixed))
        return given


def _last(visible: Slots, many: int) -> Int[Tensor, "batch target many"]:
    """The last `many` slots that each token sees, in order, counted from 1; 0 where there are not so many."""
    numbered = visible * torch.arange(1, visible.shape[2] + 1, device=visible.device)
    found = numbered.topk(min(many, visible.shape[2])).values.flip(2)
    return functional.pad(found, (many - found.shape[2], 0))
