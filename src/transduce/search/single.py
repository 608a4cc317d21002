"""Searches that follow one hypothesis: greedy (the most probable token at each step), and sampling."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from transduce.search.beam import Hypothesis
from transduce.search.largest import top_k
from transduce.search.stepper import SearchProblem, Stepper
from transduce.settings import Spec

Choice = Callable[[Float[Tensor, "batch vocabulary"], Int[Tensor, " batch"], int], Int[Tensor, " batch"]]


class Sampling(Spec):
    """Draws from the model's distribution, made sharper by a low `temperature` and cut to its most probable tokens."""

    temperature: float = Field(default=1.0, gt=0)
    top_k: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)


def greedy_search(stepper: Stepper, problem: SearchProblem) -> list[Hypothesis]:
    """The most probable token at each step, until the end symbol or the bound. A beam of 1 is not the same: it
    keeps a live hypothesis after one has ended."""
    return _follow(stepper, problem, lambda log_probabilities, _sentences, _step: top_k(log_probabilities, 1)[1][:, 0])


def sample(
    stepper: Stepper, problem: SearchProblem, sampling: Sampling, draws: Float[Tensor, "batch max_length"]
) -> list[Hypothesis]:
    """One sampled translation a sentence; `draws`, uniform on [0, 1), are each sentence's own, so that its
    translation does not depend on its companions."""

    def choose(log_probabilities: Tensor, sentences: Tensor, step: int) -> Tensor:
        return _draw(log_probabilities, sampling, draws[sentences, step])

    return _follow(stepper, problem, choose)


def _draw(
    log_probabilities: Float[Tensor, "batch vocabulary"], sampling: Sampling, draws: Float[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """The token at which the running sum of probabilities, most probable first, passes the draw."""
    # The greatest is taken away first: divided by next to nothing, all would be −∞.
    below = log_probabilities.double() - log_probabilities.amax(-1, keepdim=True)
    scaled = (below / sampling.temperature).log_softmax(-1)
    best, tokens = scaled.sort(dim=-1, descending=True, stable=True)
    if sampling.top_k is not None:
        best[:, sampling.top_k :] = -math.inf
    if sampling.top_p is not None:
        shares = best.softmax(-1)  # of the tokens that `top_k` leaves
        before = shares.cumsum(-1) - shares
        best = best.masked_fill(before >= sampling.top_p, -math.inf)
    running = best.softmax(-1).cumsum(-1)
    place = (running <= draws.unsqueeze(1) * running[:, -1:]).sum(1)
    last = (~best.isneginf()).sum(1) - 1
    return tokens.gather(1, torch.minimum(place, last).unsqueeze(1)).squeeze(1)


def _follow(stepper: Stepper, problem: SearchProblem, choose: Choice) -> list[Hypothesis]:
    """One token after another, chosen by `choose`, until each sentence has ended; ended sentences leave the batch."""
    written: list[list[int]] = [[] for _ in problem.source]
    totals, numbers = [0.0] * len(written), list(range(len(written)))
    sentences = torch.arange(len(written), device=problem.source.device)
    state = stepper.start(problem.source, problem.visible, problem.max_length)
    tokens = torch.full((len(written), 1), problem.begin, device=problem.source.device)
    for step in range(problem.max_length):
        log_probabilities, state = stepper.step(tokens, state)
        log_probabilities = log_probabilities[:, -1]
        for token in problem.banned:
            log_probabilities[:, token] = -math.inf
        chosen = choose(log_probabilities, sentences, step)
        gained = log_probabilities.gather(1, chosen.unsqueeze(1)).squeeze(1)
        goes_on = (chosen != problem.end) & (problem.bounds[sentences] > step + 1)
        # Asked once a step: a GPU is waited for.
        told = torch.stack([chosen.double(), gained.double(), goes_on.double()]).tolist()
        for sentence, token, gain in zip(numbers, *told[:2], strict=True):
            totals[sentence] += gain
            if token != problem.end:
                written[sentence].append(int(token))
        kept = [place for place, lives in enumerate(told[2]) if lives]
        if not kept:
            break
        if len(kept) < len(numbers):
            places = torch.tensor(kept, device=chosen.device)
            state, sentences, chosen = state.pick(places), sentences[places], chosen[places]
            numbers = [numbers[place] for place in kept]
        tokens = chosen.unsqueeze(1)
    return [Hypothesis(tokens, total, total) for tokens, total in zip(written, totals, strict=True)]
