"""Greedy search and sampling, which follow a single hypothesis for each sentence."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from transduce.search.beam import Hypothesis
from transduce.search.stepper import BestTokens, SearchProblem, Stepper, ban, best_tokens
from transduce.settings import Spec

TokenChoice = Callable[[Int[Tensor, "batch 1"], Any, Int[Tensor, " batch"], int], BestTokens]
"""A function that appends a token to each row and chooses the next token.

Its arguments are the tokens, the stepper's state, the index of each row's sentence, and the number of the step.
"""


class Sampling(Spec):
    """Settings of sampling.

    A `temperature` below 1 sharpens the distribution; `top_k` and `top_p` truncate it to the most probable tokens.
    """

    temperature: float = Field(default=1.0, gt=0)
    top_k: int | None = Field(default=None, ge=1)
    top_p: float | None = Field(default=None, gt=0, le=1)


def greedy_search(stepper: Stepper, problem: SearchProblem, *, compiled: bool = False) -> list[Hypothesis]:
    """Chooses the most probable token in every step, and returns one hypothesis for each sentence.

    The result can differ from that of a beam search with a beam of 1, which keeps a live hypothesis after another one
    has ended. `compiled` selects an implementation in compiled code, which runs only on a CPU.
    """
    if compiled:
        from transduce.search.compiled_search import compiled_greedy_search, is_wholly_compiled  # imports numba

        if is_wholly_compiled(stepper):
            return compiled_greedy_search(stepper, problem)

    def choose(tokens: Tensor, state: Any, _sentences: Tensor, step: int) -> BestTokens:
        return best_tokens(stepper, tokens, state, 1, problem.banned_at(step))

    return _follow(stepper, problem, choose)


def sample(
    stepper: Stepper, problem: SearchProblem, sampling: Sampling, draws: Float[Tensor, "batch max_length"]
) -> list[Hypothesis]:
    """Samples one hypothesis for each sentence.

    `draws` contains a random number from the uniform distribution on [0, 1) for each sentence and step. Because each
    sentence has its own draws, its translation does not depend on the other sentences of the batch.
    """

    def choose(tokens: Tensor, state: Any, sentences: Tensor, step: int) -> BestTokens:
        log_probabilities, state = stepper.step(tokens, state)
        log_probabilities = log_probabilities[:, -1]
        ban(log_probabilities, problem.banned_at(step))
        chosen = _draw(log_probabilities, sampling, draws[sentences, step]).unsqueeze(1)
        return BestTokens(log_probabilities.gather(1, chosen), chosen, state)

    return _follow(stepper, problem, choose)


def _draw(
    log_probabilities: Float[Tensor, "batch vocabulary"], sampling: Sampling, draws: Float[Tensor, " batch"]
) -> Int[Tensor, " batch"]:
    """Returns the token at which the cumulative probability first exceeds the draw.

    Before that, the temperature, `top_k` and `top_p` are applied, and the tokens are sorted by decreasing probability.
    """
    # The largest log-probability is subtracted first, because dividing by a tiny temperature would make all of them −∞.
    shifted = log_probabilities.double() - log_probabilities.amax(-1, keepdim=True)
    scaled = (shifted / sampling.temperature).log_softmax(-1)
    best, tokens = scaled.sort(dim=-1, descending=True, stable=True)
    if sampling.top_k is not None:
        best[:, sampling.top_k :] = -math.inf
    if sampling.top_p is not None:
        probabilities = best.softmax(-1)  # renormalised over the tokens that `top_k` leaves
        mass_before = probabilities.cumsum(-1) - probabilities
        best = best.masked_fill(mass_before >= sampling.top_p, -math.inf)
    running = best.softmax(-1).cumsum(-1)
    index = (running <= draws.unsqueeze(1) * running[:, -1:]).sum(1)
    last = (~best.isneginf()).sum(1) - 1
    return tokens.gather(1, torch.minimum(index, last).unsqueeze(1)).squeeze(1)


def _follow(stepper: Stepper, problem: SearchProblem, choose: TokenChoice) -> list[Hypothesis]:
    """Extends the hypothesis of each sentence by the tokens that `choose` returns, until it ends or reaches its bound.

    A sentence whose hypothesis is complete leaves the batch.
    """
    sequences: list[list[int]] = [[] for _ in problem.source]
    bounds, device = problem.bounds.tolist(), problem.source.device
    totals, live_sentences = [0.0] * len(sequences), list(range(len(sequences)))
    sentences = torch.arange(len(sequences), device=device)
    state = stepper.start(problem.source, problem.visible, problem.max_length)
    tokens = torch.full((len(sequences), 1), problem.begin, device=device)
    for step in range(problem.max_length):
        gains, tokens, state = choose(tokens, state, sentences, step)
        live = []
        for row, (sentence, token, gain) in enumerate(zip(live_sentences, *_columns(tokens, gains), strict=True)):
            totals[sentence] += gain
            if token != problem.end:
                sequences[sentence].append(int(token))
                if bounds[sentence] > step + 1:
                    live.append(row)
        if not live:
            break
        if len(live) < len(live_sentences):
            live_rows = torch.tensor(live, device=device)
            state, sentences, tokens = state.pick(live_rows), sentences[live_rows], tokens[live_rows]
            live_sentences = [live_sentences[row] for row in live]
    return [Hypothesis(sequence, total, total) for sequence, total in zip(sequences, totals, strict=True)]


def _columns(
    tokens: Int[Tensor, "batch 1"], gains: Float[Tensor, "batch 1"]
) -> tuple[list[int | float], list[int | float]]:
    """Converts both tensors to lists.

    On a GPU they are copied in a single transfer, because each transfer synchronises the device.
    """
    if tokens.is_cuda:
        both: list[list[int | float]] = torch.cat([tokens.double(), gains.double()], 1).T.tolist()
        return both[0], both[1]
    return tokens[:, 0].tolist(), gains[:, 0].tolist()
