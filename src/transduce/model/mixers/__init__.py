"""Mixers, which move information between the positions of a layer: self-attention and its alternatives (section 4).

The module of a mixer has `mix` for whole sentences and `step` for the new tokens of a search.
"""

from typing import Annotated

from pydantic import Field

from transduce.model.attention import Attention
from transduce.model.mixers.convolution import Convolution, SeparableConvolution
from transduce.model.mixers.local import LocalAttention

__all__ = ["Attention", "Convolution", "LocalAttention", "Mixer", "SeparableConvolution"]

Mixer = Annotated[Attention | LocalAttention | Convolution | SeparableConvolution, Field(discriminator="kind")]
