"""Mixers, which move information between positions of a sentence: self-attention and its alternatives (section 4)."""

from typing import TYPE_CHECKING

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transduce.model.decoder_state import DecodingContext
from transduce.settings import Spec

Visible = Bool[Tensor, "#batch #target source"]


class MixerSpec(Spec):
    """Base class of the settings of a mixer."""

    if TYPE_CHECKING:
        kind: str

    def build(self, d_model: int) -> "Mixer":
        """Builds the module for hidden states of width `d_model`."""
        raise NotImplementedError

    def multiplications(self, d_model: int, visible: int | float, *, causal: bool = False) -> int | float:
        """Counts the multiplications for one token in a sentence of `visible` tokens."""
        raise NotImplementedError


class Mixer(nn.Module):
    """Base class of mixers, the sub-layers that move information between the positions of a sentence."""

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Mixes the hidden states of whole sentences.

        `visible` marks the positions that are not padding, or is None. If `causal` is true, no position sees a later
        one.
        """
        raise NotImplementedError

    def step(
        self, states: Float[Tensor, "rows new d_model"], context: DecodingContext
    ) -> Float[Tensor, "rows new d_model"]:
        """Mixes the hidden states of the new tokens of a search with those of earlier tokens, and extends the cache."""
        raise NotImplementedError
