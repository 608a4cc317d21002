"""How the positions of a sentence hear of each other in a layer: self-attention, or what section 4 weighs it against.

A mixer's module has `mix`, for whole sentences, and `step`, for new tokens of a search.
"""

from typing import Annotated

from pydantic import Field

from transduce.model.attention import Attention
from transduce.model.mixers.convolution import Convolution, SeparableConvolution
from transduce.model.mixers.local import LocalAttention

__all__ = ["Attention", "Convolution", "LocalAttention", "Mixer", "SeparableConvolution"]

Mixer = Annotated[Attention | LocalAttention | Convolution | SeparableConvolution, Field(discriminator="kind")]
