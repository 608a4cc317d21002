"""Compiled code that updates the hypotheses of a beam search, with the same results as `beam.beam_search`.

Hypotheses are not copied from step to step. Instead, each step records the token and the parent of each place in the
beam, and the sequences of tokens are read off backwards at the end. Each sentence has `beam` places, which are numbered
consecutively through the batch. An example of a sentence with a beam of 2:

    step           1       2        3
    place 0       the     cat      sat
    place 1       a       dog      ran
    parents               0, 0     1, 0     of place 0 and of place 1

In step 3, "sat" has parent 1, so it continues "dog". The parent of "dog" is 0, so it continues "the". If the EOS token
follows "sat", it does not take up a place. Instead, `_finish` records a hypothesis of 4 tokens that ends at place 0,
and `Beams.hypotheses` follows the parents back from there to read off "the dog sat".
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.model.compiled.compilation import FIRST_INDEX, cached_exact, exact
from transduce.model.compiled.rows import LOWEST
from transduce.search.beam import Hypothesis, length_penalty


class Beams(NamedTuple):
    """The live and the finished hypotheses of a batch.

    A place without a hypothesis has a log-probability of −∞. The arrays `tokens` and `parents` [steps places] record
    the search. A finished hypothesis consists of `lengths` tokens, including the EOS token if `has_end` is true, and
    `ends` is the place of its last other token.
    """

    live: NDArray[np.float32]  # [sentences beam], best first
    tokens: NDArray[np.int32]
    parents: NDArray[np.int32]
    finished: NDArray[np.float32]  # [sentences n_best], log-probabilities
    scores: NDArray[np.float32]
    lengths: NDArray[np.int32]
    ends: NDArray[np.int32]
    has_end: NDArray[np.bool_]

    @classmethod
    def start(cls, sentences: int, beam: int, n_best: int, steps: int) -> "Beams":
        """Returns the initial beams, with one live hypothesis without tokens for each sentence."""
        live = np.full((sentences, beam), -np.inf, np.float32)
        live[:, 0] = 0
        of_all, of_best = (steps, sentences * beam), (sentences, n_best)
        return cls(
            live=live,
            tokens=np.zeros(of_all, np.int32),
            parents=np.zeros(of_all, np.int32),
            finished=np.full(of_best, -np.inf, np.float32),
            scores=np.full(of_best, -np.inf, np.float32),
            lengths=np.zeros(of_best, np.int32),
            ends=np.zeros(of_best, np.int32),
            has_end=np.zeros(of_best, np.bool_),
        )

    def hypotheses(self, sentence: int) -> list[Hypothesis]:
        """Returns the finished hypotheses of a sentence, best first."""
        results = []
        for number in np.flatnonzero(self.scores[sentence] > -np.inf):
            place, tokens = int(self.ends[sentence, number]), []
            for step in range(int(self.lengths[sentence, number]) - 1 - int(self.has_end[sentence, number]), -1, -1):
                tokens.append(int(self.tokens[step, place]))
                place = int(self.parents[step, place])
            log_probability, score = float(self.finished[sentence, number]), float(self.scores[sentence, number])
            results.append(Hypothesis(tokens[::-1], log_probability, score))
        return results


class SearchLimits(NamedTuple):
    """The length penalties, length bounds and margin that a search uses to score, end and drop hypotheses."""

    bounds: NDArray[np.int64]  # maximum length in tokens of each sentence's translation
    penalties: NDArray[np.float64]  # for each length, beginning with 1
    largest_penalties: NDArray[np.float32]  # for each sentence, the penalty at its bound
    margin: float

    @classmethod
    def of(cls, bounds: NDArray[np.int64], alpha: float, margin: float) -> "SearchLimits":
        """Computes the length penalties with exponent `alpha` for all lengths up to the largest bound."""
        penalties = np.array([length_penalty(length, alpha) for length in range(1, int(bounds.max()) + 1)])
        return cls(bounds, penalties, penalties[bounds - 1].astype(np.float32), margin)


@exact
def _finish(
    beams: Beams, sentence: int, log_probability: float, penalty: float, length: int, place: int, has_end: bool
) -> None:
    """Inserts a hypothesis into the sorted finished hypotheses of its sentence, if its score is good enough."""
    score, scores = np.float32(log_probability / penalty), beams.scores[sentence]
    number = scores.shape[0] - 1
    if not score > scores[number]:
        return
    while number > 0 and score > scores[number - 1]:
        beams.finished[sentence, number] = beams.finished[sentence, number - 1]
        beams.lengths[sentence, number] = beams.lengths[sentence, number - 1]
        beams.ends[sentence, number] = beams.ends[sentence, number - 1]
        beams.has_end[sentence, number] = beams.has_end[sentence, number - 1]
        scores[number] = scores[number - 1]
        number -= 1
    scores[number], beams.finished[sentence, number] = score, log_probability
    beams.lengths[sentence, number], beams.ends[sentence, number] = length, place
    beams.has_end[sentence, number] = has_end


@exact
def _continuations(live: Any, places: Any, first: int, best: Any, totals: Any, rows: Any, choices: Any) -> int:
    """Finds the most probable continuations of one sentence, whose rows begin at `first`.

    `live` contains the log-probabilities of the sentence's hypotheses. For each continuation, best first, the function
    writes its total log-probability to `totals`, the row that it continues to `rows`, and the rank of its token among
    the best tokens of this row to `choices`. If there are fewer continuations than entries, the remaining totals are
    −∞. Returns the first row of the next sentence.
    """
    # `totals` is short, so it is kept sorted by insertion. The tokens of a row are sorted, best first, so if one of
    # them is not better than the last total, none of the later ones is.
    beam, row, last = live.shape[0], first, totals.shape[0] - 1
    for number in range(totals.shape[0]):
        totals[number] = -np.inf
    while row < places.shape[0] and places[row] // beam == places[first] // beam:
        for choice in range(best.shape[1]):
            total = live[places[row] % beam] + best[row, choice]
            if total != total:  # NaN: the model has diverged
                total = LOWEST
            if not total > totals[last]:
                break
            number = last
            while number > 0 and total > totals[number - 1]:
                totals[number], rows[number], choices[number] = (
                    totals[number - 1],
                    rows[number - 1],
                    choices[number - 1],
                )
                number -= 1
            totals[number], rows[number], choices[number] = total, row, choice
        row += 1
    return row


@exact
def _count_hopeful(beams: Beams, sentence: int, live: int, largest_penalty: float, margin: float) -> int:
    """Returns how many of the `live` hypotheses of a sentence are kept.

    As in `beam._prune`, which has an example, a hypothesis is dropped if it can no longer reach a finished place or is
    behind by more than the margin. The hypotheses are sorted, so they are dropped from the end.
    """
    n_best, log_probabilities = beams.scores.shape[1], beams.live[sentence]
    last, reference = min(n_best, beams.live.shape[1]) - 1, beams.finished[sentence, n_best - 1]
    if last < live:
        reference = max(reference, log_probabilities[last])
    while live > 0 and (
        log_probabilities[live - 1] / largest_penalty < beams.scores[sentence, n_best - 1]
        or log_probabilities[live - 1] < reference - margin
    ):
        live -= 1
    return live


@cached_exact
def advance(
    beams: Beams, places: Any, best: Any, tokens: Any, end: int, length: int, candidates: int, limits: SearchLimits,
    next_places: Any, next_rows: Any,
) -> int:  # fmt: skip
    """Extends the hypotheses by one token, to a length of `length` tokens.

    Row n of `tokens` and `best` [rows count] contains the best next tokens of the hypothesis at `places[n]`, and their
    log-probabilities. For each sentence, the `candidates` most probable continuations are considered; if `candidates`
    is twice the beam size, at least `beam` of them do not end. The places of the hypotheses that are then live are
    written to `next_places`, and the rows that they continue to `next_rows`. Returns the number of live hypotheses.
    """
    beam, penalty = beams.live.shape[1], limits.penalties[length - 1]
    totals, rows = np.empty(candidates, np.float32), np.empty(candidates, np.int64)
    choices, row, written = np.empty(candidates, np.int64), FIRST_INDEX, 0
    while row < places.shape[0]:
        # Each iteration processes the adjacent rows of one sentence. A candidate ends or takes the next place.
        sentence, live = places[row] // beam, 0
        row = _continuations(beams.live[sentence], places, row, best, totals, rows, choices)
        for number in range(candidates):
            if totals[number] == -np.inf:
                break
            parent, token = places[rows[number]], tokens[rows[number], choices[number]]
            if token == end:
                _finish(beams, sentence, totals[number], penalty, length, parent, True)
            elif live < beam:
                place = sentence * beam + live
                beams.tokens[length - 1, place], beams.parents[length - 1, place] = token, parent
                beams.live[sentence, live] = totals[number]
                next_places[written + live], next_rows[written + live] = place, rows[number]
                live += 1
        if limits.bounds[sentence] <= length:  # at the bound, live hypotheses count only if none has ended
            if beams.scores[sentence, 0] == -np.inf:
                for number in range(live):
                    place = sentence * beam + number
                    _finish(beams, sentence, beams.live[sentence, number], penalty, length, place, False)
            live = 0
        live = _count_hopeful(beams, sentence, live, limits.largest_penalties[sentence], limits.margin)
        for number in range(live, beam):
            beams.live[sentence, number] = -np.inf
        written += live
    return written
