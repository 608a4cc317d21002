"""Convolutions as mixers (section 4).

A single layer only connects a position with the positions within its kernel, and several layers reach further.
"""

from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.decoder_state import DecodingContext
from transduce.model.mixer import Mixer, MixerSpec, Visible


class Convolution(MixerSpec):
    """Settings of a convolution over the `kernel` positions around each position, which costs O(k · n · d²).

    In the decoder, the convolution reads the last `kernel` positions instead.
    """

    kind: Literal["convolution"] = "convolution"
    kernel: int = Field(ge=1, description="Kernel width k; in the decoder, the convolution is causal.")

    def build(self, d_model: int) -> "ConvolutionMixer":
        """Builds the module for hidden states of width `d_model`."""
        return ConvolutionMixer(self.kernel, d_model, separable=False)

    def multiplications(self, d_model: int, visible: int | float, *, causal: bool = False) -> int | float:
        """Counts the multiplications for one token."""
        return self.kernel * d_model**2


class SeparableConvolution(MixerSpec):
    """Settings of a separable convolution, which costs O(k · n · d + n · d²).

    It convolves each feature separately, and then applies a linear map to the features of each position.
    """

    kind: Literal["separable_convolution"] = "separable_convolution"
    kernel: int = Field(ge=1, description="Kernel width k; in the decoder, the convolution is causal.")

    def build(self, d_model: int) -> "ConvolutionMixer":
        """Builds the module for hidden states of width `d_model`."""
        return ConvolutionMixer(self.kernel, d_model, separable=True)

    def multiplications(self, d_model: int, visible: int | float, *, causal: bool = False) -> int | float:
        """Counts the multiplications for one token."""
        return self.kernel * d_model + d_model**2


class ConvolutionMixer(Mixer):
    """A convolution along the sentence, which is padded with zeros."""

    def __init__(self, kernel: int, d_model: int, *, separable: bool) -> None:
        super().__init__()
        self.kernel = kernel
        self.convolution = nn.Conv1d(d_model, d_model, kernel, groups=d_model if separable else 1, bias=not separable)
        self.point = nn.Linear(d_model, d_model) if separable else nn.Identity()

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Convolves whole sentences."""
        if visible is not None:
            states = states * visible.transpose(1, 2).to(states.dtype)
        before = self.kernel - 1 if causal else (self.kernel - 1) // 2
        padded = functional.pad(states.transpose(1, 2), (before, self.kernel - 1 - before))
        return self.point(self.convolution(padded).transpose(1, 2))

    def step(
        self, states: Float[Tensor, "rows new d_model"], context: DecodingContext
    ) -> Float[Tensor, "rows new d_model"]:
        """Convolves each new token with the tokens before it in its hypothesis; adds the new tokens to the cache."""
        (cached,) = context.cache.extend(context.rows.to_rectangle(states).unsqueeze(1))
        # The last `kernel` visible slots of each token in order, counted from 1; 0 where there are fewer.
        numbered = context.visible * torch.arange(1, context.visible.shape[2] + 1, device=context.visible.device)
        last = numbered.topk(min(self.kernel, context.visible.shape[2])).values.flip(2)
        slots = functional.pad(last, (self.kernel - last.shape[2], 0))
        inputs = functional.pad(cached.squeeze(1), (0, 0, 1, 0))  # slot 0 is before the sentence
        selected = inputs.gather(1, slots.flatten(1).unsqueeze(2).expand(-1, -1, inputs.shape[2]))
        windows = selected.unflatten(1, slots.shape[1:]).transpose(2, 3)
        batch, target = windows.shape[:2]
        mixed = self.convolution(windows.flatten(0, 1)).view(batch, target, -1)
        return self.point(context.rows.from_rectangle(mixed))
