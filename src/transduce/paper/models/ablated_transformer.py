"""The Transformer without one of its parts, to measure what that part contributes (rows beside Table 3)."""

from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from transduce.model.residual import PostNorm, PreNorm
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model.translation_model import Vocabulary

States = Float[Tensor, "batch length d_model"]


class AblatedTransformer(Transformer):
    """Settings of a Transformer from which one part is left out.

    The part is the positional encoding, the layer normalisation, the residual connections or the feed-forward networks.
    Attention, dropout and the initial weights of the other parts stay as they are.
    """

    kind: Literal["ablated_transformer"] = "ablated_transformer"  # type: ignore[assignment]
    without: Literal["positions", "norm", "residual", "feed_forward"] = Field(description="Part that is left out.")

    def build(self, vocabulary: Vocabulary) -> "AblatedTransformerModel":
        """Builds the model with fresh weights, drawn from torch's generator as for the whole Transformer."""
        return AblatedTransformerModel(self, vocabulary)

    def multiplications(self, length: int) -> tuple[int | float, int | float]:
        """Counts the multiplications as defined by `BaseModelSpec.multiplications`."""
        source, target = super().multiplications(length)
        network = self.feed_forward.multiplications(self.d_model) if self.without == "feed_forward" else 0
        return source - self.encoder_layers * network, target - self.decoder_layers * network


class AblatedTransformerModel(TransformerModel):
    """A Transformer in which modules without parameters replace the part that is left out."""

    def __init__(self, spec: AblatedTransformer, vocabulary: Vocabulary) -> None:
        super().__init__(spec, vocabulary)
        if spec.without == "positions":
            for embedding in (self.source_embedding, self.target_embedding):
                embedding.positions = NoPositions(spec.d_model)
        if spec.without == "norm":
            for module in list(self.modules()):
                if isinstance(module, PostNorm | PreNorm):
                    module.register_module("norm", nn.Identity())
            self.encoder_norm, self.decoder_norm = nn.Identity(), nn.Identity()
        for layer in self.blocks():
            for name, wrapper in list(layer.named_children()):
                if spec.without == "residual" and isinstance(wrapper, PostNorm | PreNorm):
                    layer.register_module(name, NoResidual(wrapper))
            if spec.without == "feed_forward":
                layer.register_module("feed_forward", nn.Identity())
                layer.register_module("around_feed_forward", NoSublayer())


class NoPositions(nn.Module):
    """Replaces the vectors of the positions by zeros."""

    zeros: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("zeros", torch.zeros(1, d_model, device="cpu"), persistent=False)

    def forward(self, first: int, length: int) -> Float[Tensor, "length d_model"]:
        """Returns zeros for `length` tokens."""
        return self.zeros.expand(length, -1)


class NoResidual(nn.Module):
    """Applies the dropout and the norm around a sub-layer without adding the states."""

    def __init__(self, wrapper: PostNorm | PreNorm) -> None:
        super().__init__()
        self.wrapper = wrapper

    def sublayer_input(self, states: States) -> States:
        """Returns the input of the sub-layer."""
        return self.wrapper.sublayer_input(states)

    def forward(self, states: States, output: States) -> States:
        """Returns the sub-layer's `output` after dropout and, for post-norm, the norm."""
        added: Tensor = self.wrapper(torch.zeros_like(output), output)
        return added


class NoSublayer(nn.Module):
    """Replaces a sub-layer, its residual connection and its norm by the identity."""

    def sublayer_input(self, states: States) -> States:
        """Returns the states."""
        return states

    def forward(self, states: States, output: States) -> States:
        """Returns the states; `output` is ignored."""
        return states
