"""Mixers move information between the positions of a layer: self-attention and its alternatives (section 4)."""

from typing import TYPE_CHECKING

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transduce.model.decoder_state import DecodingContext
from transduce.settings import Spec

Visible = Bool[Tensor, "#batch #target source"]


class MixerSpec(Spec):
    """Settings of a mixer."""

    if TYPE_CHECKING:
        kind: str

    def build(self, d_model: int) -> "Mixer":
        """Builds the module for states of width `d_model`."""
        raise NotImplementedError

    def multiplications(self, d_model: int, visible: int | float, *, causal: bool = False) -> int | float:
        """Counts the multiplications for one token in a sentence of `visible` tokens."""
        raise NotImplementedError


class Mixer(nn.Module):
    """Interface of a mixer."""

    def mix(
        self, states: Float[Tensor, "batch length d_model"], visible: Visible | None, causal: bool
    ) -> Float[Tensor, "batch length d_model"]:
        """Computes the mixed states of whole sentences."""
        raise NotImplementedError

    def step(
        self, states: Float[Tensor, "rows new d_model"], context: DecodingContext
    ) -> Float[Tensor, "rows new d_model"]:
        """Computes the mixed states of a search's new tokens, and appends the tokens to the cache."""
        raise NotImplementedError
