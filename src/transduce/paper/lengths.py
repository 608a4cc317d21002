"""BLEU by sentence length: sinusoids against learned positions, both trained on short sentences only (section 3.5)."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from transduce.measure import scores
from transduce.model_directory import Model
from transduce.paper.scales import Scale
from transduce.paper.table3 import recipe_of
from transduce.paper.trials import RESAMPLES, Budget, Say, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe import Recipe
from transduce.settings import merged, validated
from transduce.trainer.train import TrainOptions
from transduce.trainer.validation import read_parallel_text

POSITIONS = {"sinusoids": "base", "learned": "E"}
LONGEST = 14  # subwords a side, in training
BINS = ((1, 14), (15, 18), (19, 24), (25, 60))  # of the source's subwords; only the first is of lengths trained on
BUDGET = "steps"


class Scored(NamedTuple):
    """BLEU of the test sentences whose sources have so many subwords."""

    positions: str
    by: TrialResult
    shortest: int
    longest: int
    sentences: int
    bleu: float
    low: float
    high: float
    signature: str


def lengths(
    at: Scale, names: Sequence[str], minutes: float | None, work: Path, options: TrainOptions, say: Say
) -> list[Scored]:
    """Trains what is named, and measures all that had all their steps, by the length of the source."""
    prepared = shared_store(_recipe(at, "base"), work, say)
    corpus = read_parallel_text(at.corpus_named("test"))
    sizes = [len(words) for words in prepared.source.encode(corpus.source)]
    bins = {f"{shortest} to {longest} subwords": (shortest, longest) for shortest, longest in BINS}
    measures = {part: partial(_scored, sizes, ends, corpus.target) for part, ends in bins.items()}
    found = []
    for name, row in POSITIONS.items():
        trial = Trial(name, _recipe(at, row), at.corpus_named("test"), measures)
        budget = Budget(BUDGET, at.steps, minutes)
        if name in names:
            run_trial(trial, work, [budget], options, say)
        known = read_trial(trial, work, budget)
        if known is not None and known.reached:
            found += [
                Scored(name, known, *ends, *known.also[part]) for part, ends in bins.items() if known.also.get(part)
            ]
    return found


def _scored(
    sizes: Sequence[int], ends: tuple[int, int], references: Sequence[str], _model: Model, outputs: Sequence[str]
) -> list[Any] | None:
    """How many sentences have a source of so many subwords, and their score; None of fewer than two."""
    places = [place for place, size in enumerate(sizes) if ends[0] <= size <= ends[1]]
    if len(places) < 2:
        return None
    mine, theirs = ([lines[place] for place in places] for lines in (outputs, references))
    score = scores(mine, [theirs], bootstrap=RESAMPLES)["bleu"]
    return [len(places), score.score, score.low, score.high, score.signature]


def _recipe(at: Scale, row: str) -> Recipe:
    """Table 3's row, on short sentences only."""
    recipe = recipe_of(at, row, 1)
    return validated(Recipe, merged(recipe.as_dictionary(), {"data": {"longest": LONGEST}}), place=row)
