"""A mixture of experts in place of one feed-forward network (Shazeer et al. 2017): more weights, hardly more work."""

import math
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from transduce.model.feed_forward import FeedForward, FeedForwardNetwork
from transduce.settings import Spec

LEAST = 1e-2  # the deviation of a gate's noise, as in the authors' code: the load's gradient divides by it

Gates = Float[Tensor, "rows experts"]


class Experts(Spec):
    """`chosen` of a `number` of feed-forward networks for each token, weighted by a softmax over those chosen.

    While training, noise of a learned size is added before choosing, and the penalty `balance` · (CV² of the experts'
    importance + CV² of their load) keeps all of them at work.
    """

    kind: Literal["experts"] = "experts"
    expert: FeedForward
    number: int = Field(default=4, ge=2, le=1000)
    chosen: int = Field(default=2, ge=1)
    balance: float = Field(default=0.1, ge=0)

    @model_validator(mode="after")
    def _not_all_are_chosen(self) -> "Experts":
        if self.chosen >= self.number:
            raise ValueError(f"chosen {self.chosen} must be less than number {self.number}")
        return self

    def build(self, d_model: int) -> "MixtureOfExperts":
        """The module, for states of width `d_model`."""
        return MixtureOfExperts(self, d_model)

    def products(self, d_model: int) -> int:
        """Multiplications of a token: those of the experts that it is sent to, and of the gate."""
        return self.chosen * self.expert.products(d_model) + d_model * self.number


Network = Annotated[FeedForward | Experts, Field(discriminator="kind")]


class MixtureOfExperts(nn.Module):
    """Noisy top-k gating over feed-forward networks; `penalty` is of the last tokens seen while training."""

    penalty: Float[Tensor, ""] | None = None

    def __init__(self, spec: Experts, d_model: int) -> None:
        super().__init__()
        self.spec = spec
        self.experts = nn.ModuleList(FeedForwardNetwork(spec.expert, d_model) for _ in range(spec.number))
        self.gate = nn.Linear(d_model, spec.number, bias=False)
        self.noise = nn.Linear(d_model, spec.number, bias=False)

    def forward(self, states: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows d_model"]:
        """Each token through its experts alone."""
        tokens = states.reshape(-1, states.shape[-1])
        clean = self.gate(tokens).float()
        spread = functional.softplus(self.noise(tokens).float()) + LEAST if self.training else None
        noisy = clean if spread is None else clean + torch.randn_like(clean) * spread
        best, where = noisy.topk(self.spec.chosen + 1, dim=-1)
        weights = best[:, :-1].softmax(-1)
        if spread is not None:
            gates = torch.zeros_like(clean).scatter(1, where[:, :-1], weights)
            load = _load(clean, noisy, spread, best)
            self.penalty = self.spec.balance * (_unevenness(gates.sum(0)) + _unevenness(load.sum(0)))
        given = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, place = (where[:, :-1] == number).nonzero(as_tuple=True)
            raised = expert(tokens[rows]) * weights[rows, place].unsqueeze(1).to(tokens.dtype)
            given = given.index_add(0, rows, raised.to(given.dtype))
        return given.view_as(states)


def _load(clean: Gates, noisy: Gates, spread: Gates, best: Float[Tensor, "rows most"]) -> Gates:
    """The probability that each expert is chosen again, were its noise drawn anew: smooth where a count is not."""
    # What an expert must beat: the last chosen, or, for one that is chosen, the first that is not.
    last, next_best = best[:, -2:-1], best[:, -1:]
    rival = torch.where(noisy > next_best, next_best, last)
    return 0.5 * (1 + torch.erf((clean - rival) / spread / math.sqrt(2)))


def _unevenness(totals: Float[Tensor, " experts"]) -> Float[Tensor, ""]:
    """The squared coefficient of variation."""
    return totals.var(correction=0) / (totals.mean() ** 2 + 1e-10)
