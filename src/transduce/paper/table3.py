"""Table 3: every variation of the base model, measured on the validation set without averaging, under several seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transduce.model import Vocabulary
from transduce.model.flops import flops
from transduce.paper.confidence_interval import student_quantile
from transduce.paper.record import trials
from transduce.paper.scales import Scale
from transduce.paper.trials import Budget, Say, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe import Recipe
from transduce.recipe.presets import PRESETS, TABLE_3, Values
from transduce.settings import merged
from transduce.trainer.train import TrainOptions

Metric = Literal["perplexity", "bleu"]
METRICS: tuple[Metric, ...] = ("perplexity", "bleu")

BUDGET = "steps"
EQUAL = 0.005  # a difference that is none, in print
ALIKE = 0.5  # points of either measure: what lies within them for certain is taken for equal
BIG = 3  # times the steps of base

# The paper's perplexity, BLEU and millions of parameters; empty cells are base's.
PUBLISHED: dict[str, tuple[float, float, float | None]] = {
    "base": (4.92, 25.8, 65),
    "A1": (5.29, 24.9, None),
    "A2": (5.00, 25.5, None),
    "A3": (4.91, 25.8, None),
    "A4": (5.01, 25.4, None),
    "B1": (5.16, 25.1, 58),
    "B2": (5.01, 25.4, 60),
    "C1": (6.11, 23.7, 36),
    "C2": (5.19, 25.3, 50),
    "C3": (4.88, 25.5, 80),
    "C4": (5.75, 24.5, 28),
    "C5": (4.66, 26.0, 168),
    "C6": (5.12, 25.4, 53),
    "C7": (4.75, 26.2, 90),
    "D1": (5.77, 24.6, None),
    "D2": (4.95, 25.5, None),
    "D3": (4.67, 25.3, None),
    "D4": (5.47, 25.7, None),
    "E": (4.92, 25.7, None),
    "big": (4.33, 26.4, 213),
}
ROWS = ["base", *TABLE_3, "big", "released-2017"]


class VariationResult(NamedTuple):
    """A variation, what the paper prints of it, and what was found under each seed."""

    name: str
    published: tuple[float, float, float | None] | None
    found: list[TrialResult]
    operations: int  # of a target word, forward

    def values(self, metric: Metric) -> list[float]:
        """What was found, seed by seed."""
        return [float(getattr(each, metric)) for each in self.found]


class Ordering(NamedTuple):
    """How a row differs from base in the paper and here; `within` is half of the 95 % interval, None with one seed."""

    row: str
    metric: Metric
    published: float
    found: float
    within: float | None

    @property
    def verdict(self) -> str:
        """Whether the paper's order is found."""
        if self.within is None:
            return "one seed"
        if abs(self.published) < EQUAL and abs(self.found) + self.within < ALIKE:
            return "holds: equal"
        if abs(self.found) <= self.within:
            return "open"
        return "holds" if self.published * self.found > 0 else "does not hold"


def table3(
    at: Scale, names: Sequence[str], seeds: int, minutes: float | None, work: Path, options: TrainOptions, say: Say
) -> list[VariationResult]:
    """Trains the rows named under as many seeds, and gathers what is known of all."""
    prepared = shared_store(recipe_of(at, "base", 1), work, say)
    for seed in range(1, seeds + 1):
        for name in ROWS:
            if name in names:
                run_trial(_trial(at, name, seed), work, [_budget(at, name, minutes)], options, say)
    vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
    return [
        VariationResult(
            name,
            PUBLISHED.get(name),
            _known(at, name, minutes, work),
            sum(flops(recipe_of(at, name, 1).model, vocabulary)),
        )
        for name in ROWS
    ]


def orderings(rows: Sequence[VariationResult]) -> list[Ordering]:
    """Every row against base, by perplexity and by BLEU, where all its trainings had all their steps."""
    known = {row.name: row for row in rows if row.found and row.published and all(each.reached for each in row.found)}
    if "base" not in known:
        return []
    base = known.pop("base")
    found: list[Ordering] = []
    for row in known.values():
        for place, metric in enumerate(METRICS):
            published = PUBLISHED[row.name][:2][place] - PUBLISHED["base"][:2][place]
            found.append(Ordering(row.name, metric, published, *difference(row.values(metric), base.values(metric))))
    return found


def difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, float | None]:
    """The difference of the means, and half of its 95 % interval by Student's t, the noise being alike in both.

    The interval is None where neither has several values; one that has a single value borrows the other's noise.
    """
    delta = statistics.fmean(one) - statistics.fmean(other)
    degrees = len(one) + len(other) - 2
    if not degrees:
        return delta, None
    squares = sum((value - statistics.fmean(values)) ** 2 for values in (one, other) for value in values)
    return delta, student_quantile(degrees) * math.sqrt(squares / degrees * (1 / len(one) + 1 / len(other)))


def recipe_of(at: Scale, name: str, seed: int) -> Recipe:
    """A row's recipe at this scale."""
    preset = PRESETS[name]
    training: dict[str, Any] = {
        "steps": None,
        "seed": seed,
        "average": None,
        "save_every": 1000,
        "label_smoothing": preset["training"]["label_smoothing"],
        "label_smoothing_over": preset["training"].get("label_smoothing_over", "all"),
    }
    if at.by > 1:
        training |= {"schedule": {"kind": "paper", "warmup": at.steps // 4}}
    return at.recipe(shrunk(preset["model"], at), training, name)


def shrunk(model: Values, at: Scale) -> Values:
    """The paper's sizes divided: widths by one number, layers by another; heads stay as many."""

    def divided(values: Mapping[str, int]) -> Values:
        return {key: value // at.by for key, value in values.items()}

    widths = {side: divided({key: model[side][key] for key in ("d_k", "d_v")}) for side in ("mixer", "cross")}
    layers = {side: max(1, model[side] // at.layers_by) for side in ("encoder_layers", "decoder_layers")}
    d_ff = divided({"d_ff": model["feed_forward"]["d_ff"]})
    sizes = {**divided({"d_model": model["d_model"]}), **layers, **widths, "feed_forward": d_ff}
    smaller: Values = merged(model, sizes)
    return smaller


def _trial(at: Scale, name: str, seed: int) -> Trial:
    return Trial(f"{name}-{seed}", recipe_of(at, name, seed), at.corpus_named("validation"))


def _budget(at: Scale, name: str, minutes: float | None) -> Budget:
    return Budget(BUDGET, at.steps * (BIG if name == "big" else 1), minutes)


def _known(at: Scale, name: str, minutes: float | None, work: Path) -> list[TrialResult]:
    """What was found of a row, seed by seed, whichever seeds they are."""
    parts = (trial.rpartition("-") for trial in trials(work))
    seeds = sorted(int(seed) for row, _, seed in parts if row == name and seed.isdecimal())
    known = (read_trial(_trial(at, name, seed), work, _budget(at, name, minutes)) for seed in seeds)
    return [found for found in known if found is not None]


def as_dictionary(rows: Sequence[VariationResult], found: Sequence[Ordering]) -> dict[str, Any]:
    """For JSON."""
    return {
        "rows": [{**row._asdict(), "found": [each._asdict() for each in row.found]} for row in rows],
        "orderings": [{**each._asdict(), "verdict": each.verdict} for each in found],
    }
