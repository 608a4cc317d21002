"""The position-wise feed-forward network (section 3.3), and a mixture of experts that can replace it.

A mixture of experts (Shazeer et al. 2017) has many more weights but needs little more computation, because only a few
experts process each token.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.residual import Dropout
from transduce.settings import Spec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu_,
    "gelu": functional.gelu,
    "swish": functional.silu,
}


class FeedForward(Spec):
    """The position-wise feed-forward network, max(0, x W1 + b1) W2 + b2 (equation 2)."""

    kind: Literal["feed_forward"] = "feed_forward"
    d_ff: int = Field(ge=1, description="Dimension of the hidden layer.")
    activation: Literal["relu", "gelu", "swish"] = Field(
        default="relu", description="Activation function; the paper uses `relu`."
    )
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout probability of the hidden layer; the paper uses 0."
    )

    def build(self, d_model: int) -> "FeedForwardNetwork":
        """Builds the module for hidden states of width `d_model`."""
        return FeedForwardNetwork(self, d_model)

    def multiplications(self, d_model: int) -> int:
        """Counts the multiplications for one token."""
        return 2 * d_model * self.d_ff


class FeedForwardNetwork(nn.Module):
    """Two linear layers with an activation between them, applied to each position separately and identically.

    This is equivalent to two convolutions with kernel size 1.
    """

    def __init__(self, spec: FeedForward, d_model: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, spec.d_ff)
        self.outer = nn.Linear(spec.d_ff, d_model)
        self.activation = ACTIVATIONS[spec.activation]
        self.dropout = Dropout(spec.dropout)

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Applies equation 2 to each position."""
        return self.outer(self.dropout(self.activation(self.inner(states))))


MIN_DEVIATION = 1e-2  # of the gating noise, as in the authors' code; the gradient of the load divides by the deviation

Gates = Float[Tensor, "rows experts"]


class Experts(Spec):
    """A mixture of `number` feed-forward networks, of which a gate chooses `chosen` for each token.

    The outputs of the chosen networks are weighted by a softmax over their gate values. In training, noise with a
    learned scale is added to the gate values before the experts are chosen, and an auxiliary loss keeps all experts in
    use. It is `balance` · (CV² of the experts' importance + CV² of their load), where CV is the coefficient of
    variation.
    """

    kind: Literal["experts"] = "experts"
    expert: FeedForward = Field(description="Feed-forward network of each expert.")
    number: int = Field(default=4, ge=2, le=1000, description="Number of experts.")
    chosen: int = Field(
        default=2,
        ge=1,
        description="Number of experts per token, less than `number`. With 1, only the auxiliary loss trains the gate.",
    )
    balance: float = Field(default=0.1, ge=0, description="Weight of the auxiliary load-balancing loss.")

    @model_validator(mode="after")
    def _check_chosen(self) -> "Experts":
        if self.chosen >= self.number:
            raise ValueError(f"chosen {self.chosen} must be less than number {self.number}")
        return self

    def build(self, d_model: int) -> "MixtureOfExperts":
        """Builds the module for hidden states of width `d_model`."""
        return MixtureOfExperts(self, d_model)

    def multiplications(self, d_model: int) -> int:
        """Counts the multiplications for one token, in its chosen experts and in the gate."""
        return self.chosen * self.expert.multiplications(d_model) + d_model * self.number


FeedForwardSpec = Annotated[FeedForward | Experts, Field(discriminator="kind")]


class MixtureOfExperts(nn.Module):
    """Feed-forward networks with noisy top-k gating, which selects a few of them for each token."""

    def __init__(self, spec: Experts, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.experts = nn.ModuleList(FeedForwardNetwork(spec.expert, d_model) for _ in range(spec.number))
        self.gate = nn.Linear(d_model, spec.number, bias=False)
        self.noise = nn.Linear(d_model, spec.number, bias=False)

    def forward(
        self, states: Float[Tensor, "*rows d_model"]
    ) -> tuple[Float[Tensor, "*rows d_model"], Float[Tensor, ""] | None]:
        """Returns the weighted sum of the chosen experts' outputs and, in training, the auxiliary loss."""
        tokens = states.reshape(-1, states.shape[-1])
        clean, penalty = self.gate(tokens).float(), None
        deviation = functional.softplus(self.noise(tokens).float()) + MIN_DEVIATION if self.training else None
        noisy = clean if deviation is None else clean + torch.randn_like(clean) * deviation
        best, experts = noisy.topk(self.spec.chosen + 1, dim=-1)
        weights = best[:, :-1].softmax(-1)
        if deviation is not None:
            gates = torch.zeros_like(clean).scatter(1, experts[:, :-1], weights)
            load = _load(clean, noisy, deviation, best)
            penalty = self.spec.balance * (_squared_variation(gates.sum(0)) + _squared_variation(load.sum(0)))
        output = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            rows, choice = (experts[:, :-1] == index).nonzero(as_tuple=True)
            transformed = expert(tokens[rows]) * weights[rows, choice].unsqueeze(1).to(tokens.dtype)
            output = output.index_add(0, rows, transformed.to(output.dtype))
        return output.view_as(states), penalty


def _load(clean: Gates, noisy: Gates, deviation: Gates, best: Float[Tensor, "rows best"]) -> Gates:
    """Returns the probability that each expert would be chosen for each token if only its own noise were redrawn.

    Unlike the number of tokens that an expert processes, this probability has a gradient.
    """
    # A chosen expert competes with the best expert that was not chosen; any other expert competes with the worst one
    # that was.
    last, next_best = best[:, -2:-1], best[:, -1:]
    rival = torch.where(noisy > next_best, next_best, last)
    return 0.5 * (1 + torch.erf((clean - rival) / deviation / math.sqrt(2)))


def _squared_variation(totals: Float[Tensor, " experts"]) -> Float[Tensor, ""]:
    """Returns the square of the coefficient of variation."""
    return totals.var(correction=0) / (totals.mean() ** 2 + 1e-10)
