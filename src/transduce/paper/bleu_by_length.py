"""Measures BLEU by sentence length, to compare how sinusoidal and learned positions extrapolate (section 3.5).

Both models are trained on short sentences only.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from transduce.corpus.readers import read_parallel_text
from transduce.measure.scoring import scores
from transduce.model_directory.model import Model
from transduce.paper.experiment_scales import Scale
from transduce.paper.table3 import recipe_of
from transduce.paper.trials import RESAMPLES, Budget, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe.recipe import Recipe
from transduce.run.train import TrainOptions
from transduce.settings import merged, validated

POSITIONS = {"sinusoids": "base", "learned": "E"}  # rows of Table 3
LONGEST = 14  # subwords per side, in training
BINS = ((1, 14), (15, 18), (19, 24), (25, 60))  # subwords of the source; training has only lengths of the first bin


class LengthScore(NamedTuple):
    """BLEU of the test sentences whose source has a number of subwords within given bounds."""

    sentences: int
    bleu: float
    low: float
    high: float
    signature: str


def run_lengths(
    scale: Scale, names: Sequence[str], minutes: float | None, work: Path, options: TrainOptions
) -> list[TrialResult]:
    """Trains the models in `names`.

    Returns the recorded results of all models that have been trained for all steps, in this call or earlier.
    """
    prepared = shared_store(_recipe(scale, "base"), work)
    test = scale.corpus_named("test")
    corpus = read_parallel_text(test)
    sizes = [len(tokens) for tokens in prepared.source.encode(corpus.source)]
    measures = {_measure_name(bounds): partial(_score_bin, sizes, bounds, corpus.target) for bounds in BINS}
    budget, results = Budget("steps", scale.steps, minutes), []
    for positions, row in POSITIONS.items():
        trial = Trial(positions, _recipe(scale, row), test, measures)
        if positions in names:
            run_trial(trial, work, [budget], options)
        result = read_trial(trial, work, budget)
        if result is not None and result.is_complete:
            results.append(result)
    return results


def score_of(result: TrialResult, bounds: tuple[int, int]) -> LengthScore | None:
    """Returns the score of the sentences within `bounds`, or None if it was not measured."""
    values = result.measures.get(_measure_name(bounds))
    return LengthScore(*values) if values else None


def _measure_name(bounds: tuple[int, int]) -> str:
    """Returns the key under which a score is recorded."""
    return f"{bounds[0]} to {bounds[1]} subwords"


def _score_bin(
    sizes: Sequence[int], bounds: tuple[int, int], references: Sequence[str], _model: Model, outputs: Sequence[str]
) -> list[Any] | None:
    """Returns the values of a `LengthScore` for the sentences whose source size is within `bounds`.

    Returns None if there are fewer than two such sentences, because the bootstrap needs at least two.
    """
    indices = [index for index, size in enumerate(sizes) if bounds[0] <= size <= bounds[1]]
    if len(indices) < 2:
        return None
    bin_outputs, bin_references = ([lines[index] for index in indices] for lines in (outputs, references))
    score = scores(bin_outputs, [bin_references], bootstrap=RESAMPLES)["bleu"]
    return [len(indices), score.score, score.low, score.high, score.signature]


def _recipe(scale: Scale, row: str) -> Recipe:
    """Returns the recipe of a row of Table 3, restricted to short training sentences."""
    recipe = recipe_of(scale, row, seed=1)
    return validated(Recipe, merged(recipe.as_dictionary(), {"data": {"max_length": LONGEST}}), place=row)
