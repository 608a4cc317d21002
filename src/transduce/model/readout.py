"""From the decoder's states to tokens: log-probabilities (section 3.4), and the loss of the target tokens."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.consistency import ConsistentCrossEntropy
from transduce.model.cross_entropy import (
    ROWS_MULTIPLE,
    ChunkedCrossEntropy,
    Evaluation,
    Loss,
    Smoothing,
    chunked_cross_entropy,
)
from transduce.settings import Spec


class _ReadoutSpec(Spec):
    """Settings that both kinds of readout share."""

    bias: bool = Field(
        default=False, description="A bias for each token; imported models have it, the paper's model has not."
    )


class Tied(_ReadoutSpec):
    """The projection before the softmax is the embedding matrix of the target (section 3.4)."""

    kind: Literal["tied"] = "tied"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """Builds the module around the embedding matrix."""
        return Readout(embedding, pad, with_bias=self.bias)


class Separate(_ReadoutSpec):
    """The projection before the softmax has a separate matrix."""

    kind: Literal["separate"] = "separate"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """Builds the module with a new matrix of the same shape as the embedding matrix."""
        weight = nn.Parameter(torch.empty_like(embedding))
        if not weight.is_meta:
            nn.init.xavier_uniform_(weight)
        return Readout(weight, pad, with_bias=self.bias)


ALIGNMENT = 8  # a GPU multiplies 16-bit matrices fast if their widths are multiples of this

ReadoutSpec = Annotated[Tied | Separate, Field(discriminator="kind")]


class Readout(nn.Module):
    """softmax(states · Wᵀ + b): log-probabilities of the next token, or the loss of the target tokens."""

    def __init__(self, weight: nn.Parameter, pad: int, *, with_bias: bool = False) -> None:
        super().__init__()
        self.weight, self.pad = weight, pad
        self.bias = nn.Parameter(torch.zeros_like(weight[:, 0])) if with_bias else None

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocabulary"]:
        """Computes log-probabilities, in at least float32."""
        logits = functional.linear(states, self.weight, self.bias)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(
        self,
        states: Float[Tensor, "batch target d_model"],
        target: Int[Tensor, "batch target"],
        smoothing: Smoothing,
    ) -> Loss:
        """Sums the smoothed and the unsmoothed loss over `target`, excluding padding."""
        rows, weight, tokens, settings = self._loss_arguments(states, target, smoothing)
        with torch.autocast(states.device.type, enabled=False):
            return Loss(*ChunkedCrossEntropy.apply(rows, weight, tokens, *settings))

    def consistent_loss(
        self,
        states: tuple[Float[Tensor, "batch target d_model"], Float[Tensor, "batch target d_model"]],
        target: Int[Tensor, "batch target"],
        smoothing: Smoothing,
        strength: float,
    ) -> Loss:
        """Returns the loss averaged over two passes, plus `strength` times their divergence (R-Drop)."""
        (first, weight, tokens, settings), (second, *_) = (
            self._loss_arguments(each, target, smoothing) for each in states
        )
        with torch.autocast(first.device.type, enabled=False):
            return Loss(*ConsistentCrossEntropy.apply(first, second, weight, tokens, *settings, strength))

    @torch.no_grad()
    def evaluate(
        self,
        states: Float[Tensor, "batch target d_model"],
        target: Int[Tensor, "batch target"],
        smoothing: Smoothing,
    ) -> Evaluation:
        """Sums the loss without gradients, and counts the correctly predicted tokens."""
        rows, weight, tokens, settings = self._loss_arguments(states, target, smoothing)
        with torch.autocast(states.device.type, enabled=False):
            sums, _ = chunked_cross_entropy(rows, weight, tokens, *settings, with_gradients=False)
        return sums

    def _loss_arguments(
        self, states: Float[Tensor, "batch target d_model"], target: Int[Tensor, "batch target"], smoothing: Smoothing
    ) -> tuple[Tensor, Tensor, Tensor, tuple[int, tuple[float, float], torch.dtype]]:
        """Returns rows of states, the matrix, target tokens, and (pad, shares of smoothing, dtype of products)."""
        device = states.device.type
        product_dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.weight.dtype
        rows, tokens = states.flatten(0, 1), target.flatten()
        if rows.is_cpu:  # on a GPU, reading the number of rows would synchronise the device
            places = self._counted_places(tokens, product_dtype)
            rows, tokens = rows.index_select(0, places), tokens[places]
        settings = self.pad, smoothing.shares(len(self.weight)), product_dtype
        return *self._with_bias_column(rows), tokens, settings

    def _counted_places(self, tokens: Int[Tensor, " rows"], product_dtype: torch.dtype) -> Int[Tensor, " counted"]:
        """Indices of the tokens that are not padding; in 16 bits, padding is added up to a multiple of `ROWS_MULTIPLE`.

        Padding adds no loss and no gradient, but without it the number of rows would change with every step.
        """
        is_padding = tokens == self.pad
        if product_dtype.itemsize > 2:
            return (~is_padding).nonzero().squeeze(1)
        count = len(tokens) - int(is_padding.sum())
        return is_padding.argsort(stable=True)[: -(-count // ROWS_MULTIPLE) * ROWS_MULTIPLE]

    def _with_bias_column(
        self, rows: Float[Tensor, "rows d_model"]
    ) -> tuple[Float[Tensor, "rows width"], Float[Tensor, "vocabulary width"]]:
        """Returns states and matrix whose product includes the bias: the states get a feature that is always 1.

        A bias adds `ALIGNMENT` features; all but one of them are zero.
        """
        if self.bias is None:
            return rows, self.weight
        one = rows.new_zeros(ALIGNMENT)
        one[0] = 1
        column = functional.pad(self.bias.unsqueeze(1), (0, ALIGNMENT - 1))
        return torch.cat([rows, one.expand(len(rows), -1)], 1), torch.cat([self.weight, column], 1)
