"""The position-wise feed-forward network (section 3.3), and a mixture of experts that can replace it.

A mixture of experts (Shazeer et al. 2017) has more weights but needs little more computation.
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
    """max(0, x W1 + b1) W2 + b2 (equation 2); `dropout` applies to the hidden layer and is 0 in the paper."""

    kind: Literal["feed_forward"] = "feed_forward"
    d_ff: int = Field(ge=1, description="Width of the hidden layer.")
    activation: Literal["relu", "gelu", "swish"] = Field(
        default="relu", description="Activation; the paper's is `relu`."
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout of the hidden layer.")

    def build(self, d_model: int) -> "FeedForwardNetwork":
        """Builds the module for states of width `d_model`."""
        return FeedForwardNetwork(self, d_model)

    def multiplications(self, d_model: int) -> int:
        """Counts the multiplications for one token."""
        return 2 * d_model * self.d_ff


class FeedForwardNetwork(nn.Module):
    """Two linear maps with an activation between them, the same at every position: two convolutions with kernel 1."""

    def __init__(self, spec: FeedForward, d_model: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, spec.d_ff)
        self.outer = nn.Linear(spec.d_ff, d_model)
        self.activation = ACTIVATIONS[spec.activation]
        self.dropout = Dropout(spec.dropout)

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Computes equation 2, position by position."""
        return self.outer(self.dropout(self.activation(self.inner(states))))


MIN_DEVIATION = 1e-2  # of a gate's noise, as in the authors' code: the gradient of the load divides by it

Gates = Float[Tensor, "rows experts"]


class Experts(Spec):
    """For each token, `chosen` of `number` feed-forward networks, weighted by a softmax over the chosen networks.

    While training, noise of a learned scale is added before the experts are chosen, and the penalty `balance` · (CV² of
    the experts' importance + CV² of their load) keeps all experts in use.
    """

    kind: Literal["experts"] = "experts"
    expert: FeedForward = Field(description="Settings of each expert.")
    number: int = Field(default=4, ge=2, le=1000, description="Number of experts.")
    chosen: int = Field(
        default=2, ge=1, description="Experts a token, fewer than `number`; with 1 the gate learns from `balance` only."
    )
    balance: float = Field(default=0.1, ge=0, description="Weight of the load-balancing penalty.")

    @model_validator(mode="after")
    def _check_chosen(self) -> "Experts":
        if self.chosen >= self.number:
            raise ValueError(f"chosen {self.chosen} must be less than number {self.number}")
        return self

    def build(self, d_model: int) -> "MixtureOfExperts":
        """Builds the module for states of width `d_model`."""
        return MixtureOfExperts(self, d_model)

    def multiplications(self, d_model: int) -> int:
        """Counts the multiplications for one token: in its chosen experts and in the gate."""
        return self.chosen * self.expert.multiplications(d_model) + d_model * self.number


FeedForwardSpec = Annotated[FeedForward | Experts, Field(discriminator="kind")]


class MixtureOfExperts(nn.Module):
    """Noisy top-k gating over feed-forward networks."""

    def __init__(self, spec: Experts, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.experts = nn.ModuleList(FeedForwardNetwork(spec.expert, d_model) for _ in range(spec.number))
        self.gate = nn.Linear(d_model, spec.number, bias=False)
        self.noise = nn.Linear(d_model, spec.number, bias=False)

    def forward(
        self, states: Float[Tensor, "*rows d_model"]
    ) -> tuple[Float[Tensor, "*rows d_model"], Float[Tensor, ""] | None]:
        """Returns the weighted output of each token's experts and, while training, the load-balancing penalty."""
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
    """Returns the probability that each expert is chosen if only its noise is redrawn.

    Unlike a count, it has a gradient.
    """
    # A chosen expert competes with the best expert that was not chosen; any other expert competes with the last one
    # chosen.
    last, next_best = best[:, -2:-1], best[:, -1:]
    rival = torch.where(noisy > next_best, next_best, last)
    return 0.5 * (1 + torch.erf((clean - rival) / deviation / math.sqrt(2)))


def _squared_variation(totals: Float[Tensor, " experts"]) -> Float[Tensor, ""]:
    """Returns the squared coefficient of variation."""
    return totals.var(correction=0) / (totals.mean() ** 2 + 1e-10)
