"""Beam search with the paper's length penalty and length bound (section 6.1).

A live hypothesis grows by one token in each step. Once it ends with the EOS token, it is finished, and its score is its
log-probability divided by the length penalty. Each sentence keeps the `n_best` finished hypotheses with the best
scores.

A single rule prunes hypotheses and ends the search. A live hypothesis is dropped if its log-probability, divided by the
length penalty at the length bound, is below the worst score that is kept. Such a hypothesis can never reach that score,
because log-probabilities only fall and no length has a larger penalty than the bound. Without the rule, it could still
crowd other hypotheses out of the beam; but these are even less probable, so dropping it does not change the result. The
search for a sentence ends when it has no live hypothesis left. The released code applies the rule only to the best live
hypothesis, and finds the same best translation.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from transduce.search.stepper import BestTokens, SearchProblem, Stepper, best_tokens
from transduce.settings import Spec

CHECK_INTERVAL = {"cpu": 1, "cuda": 8}  # steps between checks for finished sentences; each check synchronises a GPU


class Decoding(Spec):
    """Settings of beam search; the defaults are the paper's (section 6.1).

    `margin` switches on threshold pruning: if n hypotheses are requested, a hypothesis is dropped once its
    log-probability is more than `margin` nats below that of the n-th best hypothesis of its sentence.
    """

    beam: int = Field(
        default=4, ge=1, le=10_000, description="Beam size, the number of hypotheses per sentence; 1 is greedy search."
    )
    length_penalty: float = Field(
        default=0.6,
        ge=0,
        le=10,
        description="Exponent α in the score log p / ((5 + length) / 6)^α; larger values favour longer translations.",
    )
    extra_length: int = Field(
        default=50,
        ge=0,
        le=100_000,
        description="Maximum number of tokens by which a translation may be longer than its source or prefix.",
    )
    margin: float | None = Field(
        default=None,
        gt=0,
        description="Drops hypotheses more than this many nats behind the n-th best (for n requested translations); "
        "smaller values are faster, but may change the result.",
    )
    no_repeat_ngram: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Length in tokens of n-grams that must not occur twice in a translation. Not for parsers.",
    )


class Hypothesis(NamedTuple):
    """A translation: its tokens without the EOS token, its log-probability, and its score.

    After beam search, the score is the log-probability divided by the length penalty. After other searches, it is the
    log-probability itself.
    """

    tokens: list[int]
    log_probability: float
    score: float


class Live(NamedTuple):
    """The hypotheses that are still growing, best first.

    A place without a hypothesis has a log-probability of −∞.
    """

    tokens: Int[Tensor, "batch width length"]
    log_probabilities: Float[Tensor, "batch width"]


class Finished(NamedTuple):
    """The hypotheses that have ended, best first.

    A place without a hypothesis has a score of −∞.
    """

    tokens: Int[Tensor, "batch n_best length"]
    log_probabilities: Float[Tensor, "batch n_best"]
    scores: Float[Tensor, "batch n_best"]


class Candidates(NamedTuple):
    """The most probable continuations of the live hypotheses by one token, best first."""

    tokens: Int[Tensor, "batch candidates length"]
    log_probabilities: Float[Tensor, "batch candidates"]
    rows: Int[Tensor, "batch candidates"]  # the index of the stepper's row that each candidate continues


def length_penalty(length: int | Int[Tensor, " batch"], alpha: float) -> float | Float[Tensor, " batch"]:
    """Computes the length penalty ((5 + length) / 6)^α (Wu et al. 2016, equation 14).

    `length` is the number of tokens including the EOS token.
    """
    return ((5 + length) / 6) ** alpha


def beam_search(
    stepper: Stepper, problem: SearchProblem, decoding: Decoding, n_best: int = 1, *, compiled: bool = False
) -> list[list[Hypothesis]]:
    """Returns the `n_best` hypotheses of each sentence, best first.

    A sentence gets fewer hypotheses if fewer have ended, and never more than `beam`. Finished sentences leave the
    batch, and on a CPU the stepper processes only live hypotheses. `compiled` selects an implementation in compiled
    code, which runs only on a CPU.
    """
    if compiled:
        from transduce.search.compiled_search import compiled_beam_search  # imports numba

        return compiled_beam_search(stepper, problem, decoding, n_best)
    results: list[list[Hypothesis]] = [[] for _ in problem.source]
    sentences = torch.arange(len(problem.source), device=problem.source.device)
    bounds, places = problem.bounds, sentences  # places: the index of each of the stepper's rows in [batch · width]
    interval = CHECK_INTERVAL[sentences.device.type]
    max_length = problem.max_length  # read only once, because reading it synchronises a GPU
    state = stepper.start(problem.source, problem.visible, max_length)
    tokens = torch.full((len(sentences), 1, 1), problem.begin, device=sentences.device)
    live = Live(tokens, torch.zeros(len(sentences), 1, device=sentences.device))
    empty = torch.full((len(sentences), min(n_best, decoding.beam)), -math.inf, device=sentences.device)
    finished = Finished(tokens.expand(*empty.shape, 1), empty, empty)
    for length in range(1, max_length + 1):
        last = live.tokens[:, :, -1].flatten()[places].unsqueeze(1)
        count = 2 * decoding.beam  # at most one continuation of each hypothesis ends, so at least `beam` of them do not
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
    """Returns the `count` most probable continuations of each sentence's hypotheses.

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
    """Separates the candidates into hypotheses that end and hypotheses that stay live.

    Returns the best `beam` candidates that do not end, the stepper's rows that they continue, and `finished` after the
    candidates that end have competed for its places.
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
    """Returns the hypotheses with the best scores among `finished` and those that end now, after `length` tokens."""
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
    """Drops the live hypotheses of sentences that have reached their length bound.

    If such a sentence has no finished hypothesis, its live hypotheses become finished ones instead.
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
        live       "der Hund"             log p −3.2   at best −3.2 / 2 = −1.6          may still win: is kept
        live       "die Katze"            log p −4.4   at best −4.4 / 2 = −2.2          cannot win: is dropped

    The best score that a live hypothesis can still reach is its current log-probability divided by the penalty at the
    bound, because each further token lowers the log-probability and no length has a larger penalty. A sentence is done
    once its last live hypothesis has been dropped. A finished place that is still empty has a score of −∞, so no
    hypothesis is dropped by its score before there are `n_best` finished hypotheses.
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
    """Returns the finished hypotheses of the sentence at index `place` of the batch, with their tokens as lists."""
    filled = (~finished.scores[place].isneginf()).nonzero().flatten()
    # The first token is skipped, because BOS may be the same token as EOS. An EOS token is appended, because a
    # hypothesis that was cut off at its length bound may have none.
    rows = torch.nn.functional.pad(finished.tokens[place, filled, 1:], (0, 1), value=end)
    sequences = [row[: int((row == end).int().argmax())].tolist() for row in rows]
    log_probabilities, scores = finished.log_probabilities[place, filled], finished.scores[place, filled]
    return list(map(Hypothesis, sequences, log_probabilities.tolist(), scores.tolist()))
