"""Beam search with the paper's length penalty, stopping rule and length bound (section 6.1).

Live hypotheses grow by a word a step; those that write the end symbol compete for `beam` finished places. One rule
prunes and stops: a live hypothesis whose log-probability, divided by the penalty at the greatest length, is below
the worst finished score can never win, for log-probabilities only fall and that penalty is the kindest. Nothing that
it crowds out could win either, since all of that is less probable still: dropping it leaves the result unchanged.
A sentence is done when nothing of it lives, which is when the paper's search would stop.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from transduce.search.stepper import Problem, State, Stepper
from transduce.settings import Spec


class Decoding(Spec):
    """How translations are searched for; the defaults are the paper's."""

    beam: int = Field(default=4, ge=1)
    length_penalty: float = Field(default=0.6, ge=0)
    extra_length: int = Field(default=50, ge=0)


class Hypothesis(NamedTuple):
    """A translation found: its words without the end symbol, log p, and log p / penalty."""

    words: list[int]
    log_probability: float
    score: float


class Live(NamedTuple):
    """Hypotheses still growing, best first; a dead place has a log-probability of −∞."""

    words: Int[Tensor, "batch width length"]
    log_probabilities: Float[Tensor, "batch width"]


class Finished(NamedTuple):
    """Hypotheses that wrote the end symbol, best first; an empty place has a score of −∞."""

    words: Int[Tensor, "batch places length"]
    log_probabilities: Float[Tensor, "batch places"]
    scores: Float[Tensor, "batch places"]


def length_penalty(length: int | Int[Tensor, " batch"], alpha: float) -> float | Float[Tensor, " batch"]:
    """((5 + length) / 6)^α, the end symbol counted (Wu et al. 2016, equation 14)."""
    return ((5 + length) / 6) ** alpha


def beam_search(stepper: Stepper, problem: Problem, decoding: Decoding, n_best: int = 1) -> list[list[Hypothesis]]:
    """For each sentence its `n_best` (at most `beam`) hypotheses, best first.

    Sentences that are done leave the batch, and the rectangle is as wide as the sentence with most that lives.
    """
    found: list[list[Hypothesis]] = [[] for _ in problem.source]
    sentences = torch.arange(len(problem.source), device=problem.source.device)
    state = stepper.start(problem.source, problem.visible, problem.room)
    live, finished = _open(problem, decoding.beam)
    bounds = problem.bounds
    for length in range(1, problem.room + 1):
        log_probabilities, state = stepper.step(live.words[:, :, -1].reshape(-1, 1), state)
        candidates = _candidates(live, log_probabilities.squeeze(1), problem, 2 * decoding.beam)
        live, rows, finished = _advance(candidates, finished, problem.end, decoding, length)
        live = _prune(live, finished, bounds, decoding)
        done = live.log_probabilities[:, 0].isneginf() | (bounds <= length)
        for place in done.nonzero().flatten().tolist():
            found[int(sentences[place])] = _harvest(place, live, finished, decoding, n_best)
        if done.all():
            break
        live, finished, state, kept = _keep(~done, live, rows, finished, state)
        sentences, bounds = sentences[kept], bounds[kept]
    return found


def _open(problem: Problem, beam: int) -> tuple[Live, Finished]:
    """One live hypothesis a sentence, the begin symbol; no finished ones."""
    batch, device = len(problem.source), problem.source.device
    words = torch.full((batch, 1, 1), problem.begin, device=device)
    nothing = torch.full((batch, beam), -math.inf, device=device)
    finished = Finished(words.expand(batch, beam, 1), nothing, nothing)
    return Live(words, torch.zeros(batch, 1, device=device)), finished


class Candidates(NamedTuple):
    """The best continuations, best first: longer by a word than the hypotheses they come from."""

    words: Int[Tensor, "batch candidates length"]
    log_probabilities: Float[Tensor, "batch candidates"]
    rows: Int[Tensor, "batch candidates"]  # the row of the rectangle that each continues


def _candidates(
    live: Live, log_probabilities: Float[Tensor, "rows vocabulary"], problem: Problem, many: int
) -> Candidates:
    """The `many` most probable continuations of each sentence's live hypotheses."""
    batch, width = live.log_probabilities.shape
    vocabulary = log_probabilities.shape[-1]
    log_probabilities[:, list(problem.banned)] = -math.inf
    totals = live.log_probabilities.unsqueeze(-1) + log_probabilities.view(batch, width, vocabulary)
    best, places = totals.flatten(1).topk(min(many, width * vocabulary))
    parents = places // vocabulary
    written = torch.take_along_dim(live.words, parents.unsqueeze(-1), dim=1)
    words = torch.cat([written, (places % vocabulary).unsqueeze(-1)], dim=-1)
    first_rows = torch.arange(0, batch * width, width, device=places.device).unsqueeze(1)
    return Candidates(words, best, first_rows + parents)


def _advance(
    candidates: Candidates, finished: Finished, end: int, decoding: Decoding, length: int
) -> tuple[Live, Int[Tensor, "batch width"], Finished]:
    """Ended candidates compete for the finished places; the best `beam` others live on, with the rows they continue."""
    words, log_probabilities, rows = candidates
    ended = words[:, :, -1] == end
    ending = log_probabilities.masked_fill(~ended, -math.inf)
    scores = torch.cat([finished.scores, ending / length_penalty(length, decoding.length_penalty)], dim=1)
    scores, chosen = scores.topk(decoding.beam)
    longer = torch.nn.functional.pad(finished.words, (0, 1), value=end)
    finished = Finished(
        torch.take_along_dim(torch.cat([longer, words], dim=1), chosen.unsqueeze(-1), dim=1),
        torch.cat([finished.log_probabilities, ending], dim=1).gather(1, chosen),
        scores,
    )
    growing = log_probabilities.masked_fill(ended, -math.inf)
    growing, chosen = growing.topk(min(decoding.beam, growing.shape[1]))
    return Live(torch.take_along_dim(words, chosen.unsqueeze(-1), dim=1), growing), rows.gather(1, chosen), finished


def _prune(live: Live, finished: Finished, bounds: Int[Tensor, " batch"], decoding: Decoding) -> Live:
    """Live hypotheses that can no longer reach a finished place are dead."""
    kindest = torch.as_tensor(length_penalty(bounds, decoding.length_penalty)).unsqueeze(1)
    hopeless = live.log_probabilities / kindest < finished.scores[:, -1:]
    return live._replace(log_probabilities=live.log_probabilities.masked_fill(hopeless, -math.inf))


def _harvest(place: int, live: Live, finished: Finished, decoding: Decoding, n_best: int) -> list[Hypothesis]:
    """The finished hypotheses of the sentence at `place`; the live ones only where none has finished."""
    if not finished.scores[place, 0].isneginf():
        # The end symbol pads finished hypotheses: the words are those before the first one.
        end = finished.words[place, 0, -1]
        kept = [
            index for index in range(n_best) if index < decoding.beam and not finished.scores[place, index].isneginf()
        ]
        texts = [row[1 : int((row == end).int().argmax())].tolist() for row in finished.words[place, kept]]
        figures = zip(
            finished.log_probabilities[place, kept].tolist(), finished.scores[place, kept].tolist(), strict=True
        )
        return [Hypothesis(words, *pair) for words, pair in zip(texts, figures, strict=True)]
    penalty = length_penalty(live.words.shape[-1] - 1, decoding.length_penalty)
    alive = [(row, value) for row, value in zip(live.words[place], live.log_probabilities[place].tolist(), strict=True)]
    return [Hypothesis(row[1:].tolist(), value, value / penalty) for row, value in alive[:n_best] if value > -math.inf]


def _keep(
    stays: Tensor, live: Live, rows: Int[Tensor, "batch width"], finished: Finished, state: State
) -> tuple[Live, Finished, State, Int[Tensor, " kept"]]:
    """What goes on: the sentences that stay, in a rectangle as wide as the most that lives in one of them."""
    kept = stays.nonzero().flatten()
    width = int((~live.log_probabilities[kept].isneginf()).sum(1).max())
    state = state.pick(rows[kept, :width].flatten(), None if len(kept) == len(stays) else kept)
    live = Live(live.words[kept, :width], live.log_probabilities[kept, :width])
    return live, Finished(*(part[kept] for part in finished)), state, kept
