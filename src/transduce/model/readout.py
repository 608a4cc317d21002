"""The readout, which turns the decoder's hidden states into log-probabilities (section 3.4) or into a loss."""

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
        default=False,
        description="Adds a bias for each token to the logits, as imported models do.",
    )


class Tied(_ReadoutSpec):
    """The projection before the softmax uses the target embedding matrix (section 3.4)."""

    kind: Literal["tied"] = "tied"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """Builds a readout that shares the matrix `embedding`."""
        return Readout(embedding, pad, with_bias=self.bias)


class Separate(_ReadoutSpec):
    """The projection before the softmax has a matrix of its own."""

    kind: Literal["separate"] = "separate"

    def build(self, embedding: nn.Parameter, pad: int) -> "Readout":
        """Builds a readout with a new matrix, which has the same shape as `embedding`."""
        weight = nn.Parameter(torch.empty_like(embedding))
        if not weight.is_meta:
            nn.init.xavier_uniform_(weight)
        return Readout(weight, pad, with_bias=self.bias)


ALIGNMENT = 8  # a GPU multiplies 16-bit matrices fast only if their widths are multiples of this

ReadoutSpec = Annotated[Tied | Separate, Field(discriminator="kind")]


class Readout(nn.Module):
    """Projects hidden states to the vocabulary: softmax(states · Wᵀ + b).

    It computes either the log-probabilities of the next token, or the loss of given target tokens.
    """

    def __init__(self, weight: nn.Parameter, pad: int, *, with_bias: bool = False) -> None:
        super().__init__()
        self.weight, self.pad = weight, pad
        self.bias = nn.Parameter(torch.zeros_like(weight[:, 0])) if with_bias else None

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows vocabulary"]:
        """Returns the log-probabilities of all tokens, in float32 or a wider type."""
        logits = functional.linear(states, self.weight, self.bias)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def loss(
        self,
        states: Float[Tensor, "batch target d_model"],
        target: Int[Tensor, "batch target"],
        smoothing: Smoothing,
    ) -> Loss:
        """Returns the smoothed and the unsmoothed loss, summed over all tokens of `target` except padding."""
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
        """Returns the R-Drop loss of two passes, summed over all tokens of `target` except padding.

        The two passes have different dropout. `strength` is the weight of the divergence between the predictions of the
        two passes (see `consistency`).
        """
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
        """Returns the summed loss and the number of correctly predicted tokens, without computing gradients."""
        rows, weight, tokens, settings = self._loss_arguments(states, target, smoothing)
        with torch.autocast(states.device.type, enabled=False):
            sums, _ = chunked_cross_entropy(rows, weight, tokens, *settings, with_gradients=False)
        return sums

    def _loss_arguments(
        self, states: Float[Tensor, "batch target d_model"], target: Int[Tensor, "batch target"], smoothing: Smoothing
    ) -> tuple[Tensor, Tensor, Tensor, tuple[int, tuple[float, float], torch.dtype]]:
        """Returns the arguments for a loss function: rows of hidden states, the matrix, the target tokens, and a tuple.

        The tuple contains the padding token, the result of `Smoothing.shares`, and the type in which matrices are
        multiplied.
        """
        device = states.device.type
        product_dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.weight.dtype
        rows, tokens = states.flatten(0, 1), target.flatten()
        if rows.is_cpu:  # on a GPU, reading the number of rows would synchronise the device
            places = self._counted_places(tokens, product_dtype)
            rows, tokens = rows.index_select(0, places), tokens[places]
        settings = self.pad, smoothing.shares(len(self.weight)), product_dtype
        return *self._with_bias_column(rows), tokens, settings

    def _counted_places(self, tokens: Int[Tensor, " rows"], product_dtype: torch.dtype) -> Int[Tensor, " counted"]:
        """Returns the indices of the tokens that are not padding.

        In 16-bit types, enough padding is kept to make the number of indices a multiple of `ROWS_MULTIPLE`; otherwise
        it would change with every step. Padding adds nothing to the loss or to the gradients.
        """
        is_padding = tokens == self.pad
        if product_dtype.itemsize > 2:
            return (~is_padding).nonzero().squeeze(1)
        count = len(tokens) - int(is_padding.sum())
        return is_padding.argsort(stable=True)[: -(-count // ROWS_MULTIPLE) * ROWS_MULTIPLE]

    def _with_bias_column(
        self, rows: Float[Tensor, "rows d_model"]
    ) -> tuple[Float[Tensor, "rows width"], Float[Tensor, "vocabulary width"]]:
        """Returns hidden states and a matrix whose product includes the bias.

        If there is a bias, it becomes an additional column of the matrix, and the states get an additional feature that
        is always 1. The columns are then padded with zeros, so that the width grows by `ALIGNMENT`.
        """
        if self.bias is None:
            return rows, self.weight
        one = rows.new_zeros(ALIGNMENT)
        one[0] = 1
        column = functional.pad(self.bias.unsqueeze(1), (0, ALIGNMENT - 1))
        return torch.cat([rows, one.expand(len(rows), -1)], 1), torch.cat([self.weight, column], 1)
