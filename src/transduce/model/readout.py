"""From the decoder's states to tokens: log-probabilities (section 3.4), and the loss of the target tokens."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.cross_entropy import ChunkedCrossEntropy, Evaluation, Loss, Smoothing, chunked_cross_entropy
from transduce.settings import Spec


class Tied(Spec):
    """The projection before the softmax is the embedding matrix of the target (section 3.4), without a bias."""

    kind: Literal["tied"] = "tied"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """Builds the module around the matrix of the embedding."""
        return Readout(embedding, pad)


class Separate(Spec):
    """The projection before the softmax has a matrix of its own."""

    kind: Literal["separate"] = "separate"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """Builds the module with a new matrix in the shape of the embedding's."""
        weight = nn.Parameter(torch.empty_like(embedding))
        if not weight.is_meta:
            nn.init.xavier_uniform_(weight)
        return Readout(weight, pad)


ReadoutSpec = Annotated[Tied | Separate, Field(discriminator="kind")]


class Readout(nn.Module):
    """softmax(states · Wᵀ): log-probabilities of the next token, or the loss of the target tokens."""

    def __init__(self, weight: nn.Parameter, pad: int) -> None:
        super().__init__()
        self.weight, self.pad = weight, pad

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocabulary"]:
        """Returns log-probabilities, in float32 at least."""
        logits = functional.linear(states, self.weight)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(
        self,
        states: Float[Tensor, "batch target d_model"],
        target: Int[Tensor, "batch target"],
        smoothing: Smoothing,
    ) -> Loss:
        """Returns the sums of the smoothed and the unsmoothed loss over `target` without padding."""
        rows, tokens, settings = self._loss_arguments(states, target, smoothing)
        with torch.autocast(states.device.type, enabled=False):
            return Loss(*ChunkedCrossEntropy.apply(rows, self.weight, tokens, *settings))

    @torch.no_grad()
    def evaluate(
        self,
        states: Float[Tensor, "batch target d_model"],
        target: Int[Tensor, "batch target"],
        smoothing: Smoothing,
    ) -> Evaluation:
        """Returns the sums of `loss` without gradients, and the number of correctly predicted tokens."""
        rows, tokens, settings = self._loss_arguments(states, target, smoothing)
        with torch.autocast(states.device.type, enabled=False):
            sums, _ = chunked_cross_entropy(rows, self.weight, tokens, *settings, with_gradients=False)
        return sums

    def _loss_arguments(
        self, states: Float[Tensor, "batch target d_model"], target: Int[Tensor, "batch target"], smoothing: Smoothing
    ) -> tuple[Tensor, Tensor, tuple[int, tuple[float, float], torch.dtype]]:
        """Returns rows of states, target tokens, and (pad, shares of smoothing, dtype of products)."""
        device = states.device.type
        product_dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.weight.dtype
        rows, tokens = states.flatten(0, 1), target.flatten()
        if rows.is_cpu:  # on a GPU the number of rows would need a synchronisation
            present = (tokens != self.pad).nonzero().squeeze(1)
            rows, tokens = rows.index_select(0, present), tokens[present]
        return rows, tokens, (self.pad, smoothing.shares(len(self.weight)), product_dtype)
