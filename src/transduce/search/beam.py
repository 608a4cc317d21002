"""Beam search with the paper's length penalty, stopping rule and length bound (section 6.1).

Live hypotheses grow by a token a step; those that write the end symbol compete for as many finished places as
translations are wanted. One rule prunes and stops: a live hypothesis whose log-probability, divided by the penalty at
the greatest length, is below the worst finished score can never win, for log-probabilities only fall and that penalty
is the kindest. Nothing that it crowds out could win either, since all of that is less probable still: dropping it
leaves the result unchanged. A sentence is done when nothing of it lives; the paper's search, which asks the same of
its best live hypothesis alone, would stop there with the same result.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from transduce.search.largest import top_k
from transduce.search.stepper import SearchProblem, Stepper
from transduce.settings import Spec

LOOK = {"cpu": 1, "cuda": 8}  # steps from one look at what lives to the next: a GPU has to be waited for


class Decoding(Spec):
    """Settings of beam search; the defaults are those of section 6.1.

    With a `margin` (threshold pruning), hypotheses that are so many nats less probable than the last of those that
    are wanted of their sentence are dropped too: that is a bet and no proof, and much faster.
    """

    beam: int = Field(default=4, ge=1, le=10_000, description="Beam size.")
    length_penalty: float = Field(default=0.6, ge=0, le=10, description="α of log p / ((5 + length) / 6)^α.")
    extra_length: int = Field(
        default=50,
        ge=0,
        le=100_000,
        description="Tokens that a translation may have more than its source or its prefix.",
    )
    margin: float | None = Field(
        default=None,
        gt=0,
        description="Drops hypotheses more than this many nats behind the n-th best: faster, may change the result.",
    )


class Hypothesis(NamedTuple):
    """A translation found: its tokens without the end symbol, log p, and the score that it was chosen by.

    That is log p / penalty after a beam search, and log p after a greedy one or a draw.
    """

    tokens: list[int]
    log_probability: float
    score: float


class Live(NamedTuple):
    """Hypotheses still growing, best first; a dead place has a log-probability of −∞."""

    tokens: Int[Tensor, "batch width length"]
    log_probabilities: Float[Tensor, "batch width"]


class Finished(NamedTuple):
    """Hypotheses that wrote the end symbol, best first; an empty place has a score of −∞."""

    tokens: Int[Tensor, "batch places length"]
    log_probabilities: Float[Tensor, "batch places"]
    scores: Float[Tensor, "batch places"]


class Candidates(NamedTuple):
    """The best continuations, best first: longer by a token than the hypotheses they come from."""

    tokens: Int[Tensor, "batch candidates length"]
    log_probabilities: Float[Tensor, "batch candidates"]
    rows: Int[Tensor, "batch candidates"]  # the stepper's row that each continues


def length_penalty(length: int | Int[Tensor, " batch"], alpha: float) -> float | Float[Tensor, " batch"]:
    """((5 + length) / 6)^α, the end symbol counted (Wu et al. 2016, equation 14)."""
    return ((5 + length) / 6) ** alpha


def beam_search(
    stepper: Stepper, problem: SearchProblem, decoding: Decoding, n_best: int = 1
) -> list[list[Hypothesis]]:
    """For each sentence its `n_best` (at most `beam`) hypotheses, best first; fewer where fewer have ended.

    Sentences that are done leave the batch, and only what lives is stepped.
    """
    found: list[list[Hypothesis]] = [[] for _ in problem.source]
    sentences = torch.arange(len(problem.source), device=problem.source.device)
    bounds, standing = problem.bounds, sentences  # standing: where in the rectangle of what lives the rows are
    look = LOOK[sentences.device.type]
    max_length = problem.max_length  # asked once: a GPU is waited for
    state = stepper.start(problem.source, problem.visible, max_length)
    live, finished = _open(problem, min(n_best, decoding.beam))
    for length in range(1, max_length + 1):
        last = live.tokens[:, :, -1].flatten()[standing].unsqueeze(1)
        log_probabilities, state = stepper.step(last, state)
        # Twice the beam: at most one continuation of each hypothesis ends, so that `beam` that live on are among them.
        candidates = _candidates(live, standing, log_probabilities.squeeze(1), problem, 2 * decoding.beam)
        live, rows, finished = _advance(candidates, finished, problem.end, decoding, length)
        live, finished = _close(live, finished, bounds <= length, decoding, length)
        live = _prune(live, finished, bounds, decoding)
        if length % look == 0 or length == max_length:
            done = live.log_probabilities[:, 0].isneginf()
            if done.any():
                gone, kept = Finished(*(part[done].cpu() for part in finished)), (~done).nonzero().flatten()
                for place, sentence in enumerate(sentences[done].tolist()):
                    found[sentence] = _harvest(place, gone, problem.end)
                if not len(kept):
                    break
                sentences, bounds, rows = sentences[kept], bounds[kept], rows[kept]
                live, finished = Live(*(part[kept] for part in live)), Finished(*(part[kept] for part in finished))
        standing = _standing(live, everywhere=look > 1)
        state = state.pick(rows.flatten()[standing])
    return found


def _standing(live: Live, *, everywhere: bool) -> Int[Tensor, " rows"]:
    """Where in the rectangle a hypothesis lives; or `everywhere`, where to know that is to wait for the device."""
    if everywhere:
        return torch.arange(live.log_probabilities.numel(), device=live.log_probabilities.device)
    return (~live.log_probabilities.isneginf()).flatten().nonzero().flatten()


def _open(problem: SearchProblem, wanted: int) -> tuple[Live, Finished]:
    """One live hypothesis a sentence, the begin symbol; no finished ones, and places for as many as are wanted."""
    batch, device = len(problem.source), problem.source.device
    tokens = torch.full((batch, 1, 1), problem.begin, device=device)
    nothing = torch.full((batch, wanted), -math.inf, device=device)
    finished = Finished(tokens.expand(batch, wanted, 1), nothing, nothing)
    return Live(tokens, torch.zeros(batch, 1, device=device)), finished


def _candidates(
    live: Live,
    standing: Int[Tensor, " rows"],
    log_probabilities: Float[Tensor, "rows vocabulary"],
    problem: SearchProblem,
    many: int,
) -> Candidates:
    """The `many` most probable continuations of each sentence's live hypotheses, whose rows stand there."""
    batch, width = live.log_probabilities.shape
    for token in problem.banned:
        log_probabilities[:, token] = -math.inf
    best, tokens = top_k(log_probabilities, many)
    each = best.shape[1]
    # Back into a rectangle: what the rows gave, at their places; nothing of the dead.
    totals = best.new_full((batch * width, each), -math.inf)
    totals[standing] = best + live.log_probabilities.flatten()[standing].unsqueeze(1)
    following = tokens.new_full((batch * width, each), problem.end)
    following[standing] = tokens
    numbers = standing.new_zeros(batch * width)
    numbers[standing] = torch.arange(len(standing), device=standing.device)
    totals, chosen = totals.view(batch, -1).topk(min(many, width * each))
    parents = chosen // each
    written = torch.take_along_dim(live.tokens, parents.unsqueeze(-1), dim=1)
    written = torch.cat([written, following.view(batch, -1).gather(1, chosen).unsqueeze(-1)], dim=-1)
    return Candidates(written, totals, numbers.view(batch, width).gather(1, parents))


def _advance(
    candidates: Candidates, finished: Finished, end: int, decoding: Decoding, length: int
) -> tuple[Live, Int[Tensor, "batch width"], Finished]:
    """Ended candidates compete for the finished places; the best `beam` others live on, with the rows they continue."""
    tokens, log_probabilities, rows = candidates
    ended = tokens[:, :, -1] == end
    longer = torch.nn.functional.pad(finished.tokens, (0, 1), value=end)
    ending = Live(tokens, log_probabilities.masked_fill(~ended, -math.inf))
    finished = _compete(finished._replace(tokens=longer), ending, decoding, length)
    growing = log_probabilities.masked_fill(ended, -math.inf)
    growing, chosen = growing.topk(min(decoding.beam, growing.shape[1]))
    return Live(torch.take_along_dim(tokens, chosen.unsqueeze(-1), dim=1), growing), rows.gather(1, chosen), finished


def _compete(finished: Finished, new: Live, decoding: Decoding, length: int) -> Finished:
    """The best of what had finished and of what is `new`, all of `length` tokens, by their scores."""
    scores = torch.cat(
        [finished.scores, new.log_probabilities / length_penalty(length, decoding.length_penalty)], dim=1
    )
    scores, chosen = scores.topk(finished.scores.shape[1])
    return Finished(
        torch.take_along_dim(torch.cat([finished.tokens, new.tokens], dim=1), chosen.unsqueeze(-1), dim=1),
        torch.cat([finished.log_probabilities, new.log_probabilities], dim=1).gather(1, chosen),
        scores,
    )


def _close(live: Live, finished: Finished, bounded: Tensor, decoding: Decoding, length: int) -> tuple[Live, Finished]:
    """At its bound nothing of a sentence lives on; where nothing had ended, the live ones count as finished."""
    unended = (bounded & finished.scores[:, 0].isneginf()).unsqueeze(1)
    cut = live._replace(log_probabilities=live.log_probabilities.masked_fill(~unended, -math.inf))
    finished = _compete(finished, cut, decoding, length)
    return live._replace(
        log_probabilities=live.log_probabilities.masked_fill(bounded.unsqueeze(1), -math.inf)
    ), finished


def _prune(live: Live, finished: Finished, bounds: Int[Tensor, " batch"], decoding: Decoding) -> Live:
    """Live hypotheses that can no longer reach a finished place are dead, and those behind by the margin."""
    kindest = torch.as_tensor(length_penalty(bounds, decoding.length_penalty)).unsqueeze(1)
    hopeless = live.log_probabilities / kindest < finished.scores[:, -1:]
    if decoding.margin is not None:
        # As many as are wanted stay, whatever the margin.
        wanted = min(finished.scores.shape[1], live.log_probabilities.shape[1]) - 1
        best = torch.maximum(live.log_probabilities[:, wanted, None], finished.log_probabilities[:, -1:])
        hopeless |= live.log_probabilities < best - decoding.margin
    return live._replace(log_probabilities=live.log_probabilities.masked_fill(hopeless, -math.inf))


def _harvest(place: int, finished: Finished, end: int) -> list[Hypothesis]:
    """The finished hypotheses of the sentence at `place`."""
    kept = (~finished.scores[place].isneginf()).nonzero().flatten()
    # After the begin symbol, which may be the end symbol too, the tokens are those before the first end symbol. A
    # hypothesis that was cut at its bound has none before the padding.
    rows = torch.nn.functional.pad(finished.tokens[place, kept, 1:], (0, 1), value=end)
    texts = [row[: int((row == end).int().argmax())].tolist() for row in rows]
    figures = zip(finished.log_probabilities[place, kept].tolist(), finished.scores[place, kept].tolist(), strict=True)
    return [Hypothesis(tokens, *pair) for tokens, pair in zip(texts, figures, strict=True)]
