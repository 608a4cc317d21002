"""Beam search with the paper's length penalty and length bound (section 6.1).

A live hypothesis grows by one token in each step. When it writes the end symbol, it competes for the `n_best` finished
places of its sentence by its score, log-probability / length penalty. One rule prunes and stops: a live hypothesis is
dropped if its log-probability, divided by the penalty at the length bound, is below the worst finished score. No
continuation of it can reach a finished place, because log-probabilities only fall and the penalty at the bound is the
largest. Without the rule it could still crowd other hypotheses out of the beam, but these are even less probable, so
dropping it does not change the result. A sentence is done when it has no live hypothesis. The released code applies the
rule only to the best live hypothesis, and finds the same best translation.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from transduce.search.stepper import BestTokens, SearchProblem, Stepper, best_tokens
from transduce.settings import Spec

CHECK_INTERVAL = {"cpu": 1, "cuda": 8}  # steps between checks for sentences that are done: a check synchronises a GPU


class Decoding(Spec):
    """Settings of beam search; the defaults are the paper's (section 6.1).

    `margin` is threshold pruning: a hypothesis more than `margin` nats behind the n-th best of its sentence is dropped.
    """

    beam: int = Field(default=4, ge=1, le=10_000, description="Beam size.")
    length_penalty: float = Field(default=0.6, ge=0, le=10, description="α of log p / ((5 + length) / 6)^α.")
    extra_length: int = Field(
        default=50,
        ge=0,
        le=100_000,
        description="Tokens by which a translation may be longer than its source or prefix.",
    )
    margin: float | None = Field(
        default=None,
        gt=0,
        description="Drops hypotheses more than this many nats behind the n-th best: faster, may change the result.",
    )
    no_repeat_ngram: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="No n-gram of this many tokens stands twice in a translation; not for parsers.",
    )


class Hypothesis(NamedTuple):
    """A translation: its tokens without the end symbol, its log-probability and its score.

    The score is log-probability / length penalty after beam search, and the log-probability after other searches.
    """

    tokens: list[int]
    log_probability: float
    score: float


class Live(NamedTuple):
    """Hypotheses that are still growing, best first; a place without a hypothesis has a log-probability of −∞."""

    tokens: Int[Tensor, "batch width length"]
    log_probabilities: Float[Tensor, "batch width"]


class Finished(NamedTuple):
    """Hypotheses that have ended, best first; a place without a hypothesis has a score of −∞."""

    tokens: Int[Tensor, "batch n_best length"]
    log_probabilities: Float[Tensor, "batch n_best"]
    scores: Float[Tensor, "batch n_best"]


class Candidates(NamedTuple):
    """The most probable continuations of live hypotheses by one token, best first."""

    tokens: Int[Tensor, "batch candidates length"]
    log_probabilities: Float[Tensor, "batch candidates"]
    rows: Int[Tensor, "batch candidates"]  # the stepper's row of the hypothesis that each candidate continues


def length_penalty(length: int | Int[Tensor, " batch"], alpha: float) -> float | Float[Tensor, " batch"]:
    """Computes ((5 + length) / 6)^α; `length` counts the end symbol (Wu et al. 2016, equation 14)."""
    return ((5 + length) / 6) ** alpha


def beam_search(
    stepper: Stepper, problem: SearchProblem, decoding: Decoding, n_best: int = 1, *, compiled: bool = False
) -> list[list[Hypothesis]]:
    """Returns the `n_best` (at most `beam`) hypotheses of each sentence, best first; fewer if fewer have ended.

    Sentences that are done leave the batch, and on a CPU the stepper only steps live hypotheses. `compiled` needs a
    CPU.
    """
    if compiled:
        from transduce.search.compiled_search import compiled_beam_search  # imports numba

        return compiled_beam_search(stepper, problem, decoding, n_best)
    results: list[list[Hypothesis]] = [[] for _ in problem.source]
    sentences = torch.arange(len(problem.source), device=problem.source.device)
    bounds, places = problem.bounds, sentences  # places: the index of each of the stepper's rows in [batch · width]
    interval = CHECK_INTERVAL[sentences.device.type]
    max_length = problem.max_length  # read once, because reading it synchronises a GPU
    state = stepper.start(problem.source, problem.visible, max_length)
    tokens = torch.full((len(sentences), 1, 1), problem.begin, device=sentences.device)
    live = Live(tokens, torch.zeros(len(sentences), 1, device=sentences.device))
    empty = torch.full((len(sentences), min(n_best, decoding.beam)), -math.inf, device=sentences.device)
    finished = Finished(tokens.expand(*empty.shape, 1), empty, empty)
    for length in range(1, max_length + 1):
        last = live.tokens[:, :, -1].flatten()[places].unsqueeze(1)
        count = 2 * decoding.beam  # at most one continuation of each hypothesis ends, so at least `beam` do not
        best = best_tokens(stepper, last, state, count, problem.banned_at(length - 1))
        state, candidates = best.state, _expand(live, places, best, problem.end, count)
        live, rows, finished = _advance(candidates, finished, problem.end, decoding, length)
        live, finished = _end_at_bound(live, finished, bounds <= length, decoding, length)
        live = _prune(live, finished, bounds, decoding)
        if length % interval == 0 or length == max_length:
            done = live.log_probabilities[:, 0].isneginf()
            if done.any():
                leaving, remaining = Finished(*(tensor[done].cpu() for tensor in finished)), (~done).nonzero().flatten()
                for row, sentence in enumerate(sentences[done].tolist()):
                    results[sentence] = _finished_hypotheses(leaving, row, problem.end)
                if not len(remaining):
                    break
                sentences, bounds, rows = sentences[remaining], bounds[remaining], rows[remaining]
                live = Live(*(tensor[remaining] for tensor in live))
                finished = Finished(*(tensor[remaining] for tensor in finished))
        if interval == 1:
            places = (~live.log_probabilities.isneginf()).flatten().nonzero().flatten()
        else:  # finding the live hypotheses would synchronise the GPU
            places = torch.arange(live.log_probabilities.numel(), device=live.log_probabilities.device)
        state = state.pick(rows.flatten()[places])
    return results


def _expand(
    live: Live,
    places: Int[Tensor, " rows"],
    best: BestTokens,
    end: int,
    count: int,
) -> Candidates:
    """Returns the `count` most probable continuations of each sentence.

    `places` holds the index of each of the stepper's rows in [batch · width].
    """
    batch, width = live.log_probabilities.shape
    per_row = best.tokens.shape[1]
    # Scatters rows back to [batch · width]; a place without a row keeps −∞.
    totals = best.log_probabilities.new_full((batch * width, per_row), -math.inf)
    totals[places] = best.log_probabilities + live.log_probabilities.flatten()[places].unsqueeze(1)
    next_tokens = best.tokens.new_full((batch * width, per_row), end)
    next_tokens[places] = best.tokens
    rows = places.new_zeros(batch * width)
    rows[places] = torch.arange(len(places), device=places.device)
    totals, chosen = totals.view(batch, -1).topk(min(count, width * per_row))
    parents = chosen // per_row
    tokens = torch.take_along_dim(live.tokens, parents.unsqueeze(-1), dim=1)
    tokens = torch.cat([tokens, next_tokens.view(batch, -1).gather(1, chosen).unsqueeze(-1)], dim=-1)
    return Candidates(tokens, totals, rows.view(batch, width).gather(1, parents))


def _advance(
    candidates: Candidates, finished: Finished, end: int, decoding: Decoding, length: int
) -> tuple[Live, Int[Tensor, "batch width"], Finished]:
    """Splits the candidates into live hypotheses and hypotheses that end.

    Returns the best `beam` candidates that do not end, their rows, and the finished hypotheses, updated with the
    candidates that end.
    """
    tokens, log_probabilities, rows = candidates
    ends = tokens[:, :, -1] == end
    padded = torch.nn.functional.pad(finished.tokens, (0, 1), value=end)
    ending = Live(tokens, log_probabilities.masked_fill(~ends, -math.inf))
    finished = _compete(finished._replace(tokens=padded), ending, decoding, length)
    growing = log_probabilities.masked_fill(ends, -math.inf)
    growing, chosen = growing.topk(min(decoding.beam, growing.shape[1]))
    return Live(torch.take_along_dim(tokens, chosen.unsqueeze(-1), dim=1), growing), rows.gather(1, chosen), finished


def _compete(finished: Finished, ending: Live, decoding: Decoding, length: int) -> Finished:
    """Keeps the best scores among `finished` and the hypotheses that end now, at `length` tokens."""
    scores = ending.log_probabilities / length_penalty(length, decoding.length_penalty)
    scores, chosen = torch.cat([finished.scores, scores], dim=1).topk(finished.scores.shape[1])
    return Finished(
        torch.take_along_dim(torch.cat([finished.tokens, ending.tokens], dim=1), chosen.unsqueeze(-1), dim=1),
        torch.cat([finished.log_probabilities, ending.log_probabilities], dim=1).gather(1, chosen),
        scores,
    )


def _end_at_bound(
    live: Live, finished: Finished, at_bound: Bool[Tensor, " batch"], decoding: Decoding, length: int
) -> tuple[Live, Finished]:
    """Drops the live hypotheses of sentences at their bound.

    If a sentence has no finished hypothesis, its live hypotheses count as finished.
    """
    has_none = (at_bound & finished.scores[:, 0].isneginf()).unsqueeze(1)
    cut = live._replace(log_probabilities=live.log_probabilities.masked_fill(~has_none, -math.inf))
    finished = _compete(finished, cut, decoding, length)
    return live._replace(
        log_probabilities=live.log_probabilities.masked_fill(at_bound.unsqueeze(1), -math.inf)
    ), finished


def _prune(live: Live, finished: Finished, bounds: Int[Tensor, " batch"], decoding: Decoding) -> Live:
    """Drops live hypotheses that can no longer reach a finished place, or that are behind by more than the margin.

    An example with α = 1 and a bound of 7 tokens, whose penalty is (5 + 7) / 6 = 2:

        finished   "ein alter Hund <e>"   log p −3.0, penalty (5 + 4) / 6 = 1.5   score −2.0
        live       "der Hund"             log p −3.2   at best −3.2 / 2 = −1.6          may still win: stays
        live       "die Katze"            log p −4.4   at best −4.4 / 2 = −2.2          cannot win: dropped

    The best score that a live hypothesis can reach is its present log-probability (each further token lowers it)
    divided by the penalty at the bound (the largest penalty of any length). Once the last live hypothesis is dropped,
    the sentence is done: no other rule stops the search. A finished place that is still empty has a score of −∞, so
    nothing is dropped before there are `n_best` finished hypotheses.
    """
    largest_penalty = torch.as_tensor(length_penalty(bounds, decoding.length_penalty)).unsqueeze(1)
    dropped = live.log_probabilities / largest_penalty < finished.scores[:, -1:]
    if decoding.margin is not None:
        # The reference is the n-th best hypothesis, live or finished, so that the margin leaves `n_best` hypotheses.
        last = min(finished.scores.shape[1], live.log_probabilities.shape[1]) - 1
        reference = torch.maximum(live.log_probabilities[:, last, None], finished.log_probabilities[:, -1:])
        dropped |= live.log_probabilities < reference - decoding.margin
    return live._replace(log_probabilities=live.log_probabilities.masked_fill(dropped, -math.inf))


def _finished_hypotheses(finished: Finished, place: int, end: int) -> list[Hypothesis]:
    """Converts the finished hypotheses of the sentence at `place` in the batch to lists of tokens."""
    filled = (~finished.scores[place].isneginf()).nonzero().flatten()
    # The begin symbol may be the end symbol, so the first token is skipped. A hypothesis that was cut at its bound has
    # no end symbol before the padding.
    rows = torch.nn.functional.pad(finished.tokens[place, filled, 1:], (0, 1), value=end)
    sequences = [row[: int((row == end).int().argmax())].tolist() for row in rows]
    log_probabilities, scores = finished.log_probabilities[place, filled], finished.scores[place, filled]
    return list(map(Hypothesis, sequences, log_probabilities.tolist(), scores.tolist()))
