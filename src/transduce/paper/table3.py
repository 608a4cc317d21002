"""Reproduces Table 3: variations of the base model, trained with several seeds and measured on the validation set.

The models are measured without checkpoint averaging.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transduce.model.translation_model import FLOPS_LENGTH, Vocabulary, flops
from transduce.paper.experiment_scales import ExperimentOptions, Scale, scale_named
from transduce.paper.finished_runs import recorded_seeds
from transduce.paper.printing import render_page, student_quantile
from transduce.paper.system_presets import ABLATIONS, PRESETS, TABLE_3, read_data
from transduce.paper.trials import Budget, Trial, TrialResult, read_trial, run_trial, shared_store
from transduce.recipe.presets import Values
from transduce.recipe.recipe import Recipe
from transduce.settings import merged

Metric = Literal["perplexity", "bleu"]
METRICS: tuple[Metric, ...] = ("perplexity", "bleu")

PRINTED_EQUAL = 0.005  # a published difference below this counts as none
EQUIVALENT = 0.5  # points of either metric: a difference counts as none if its whole interval is smaller than this
BIG_FACTOR = 3  # steps of big, relative to base

# The paper's perplexity, BLEU and millions of parameters; None if the paper's cell is empty, which means as base.
PUBLISHED: dict[str, tuple[float, float, float | None]] = {
    row: tuple(figures) for row, figures in read_data("published.yaml")["table3"].items()
}
ROWS = ["base", *TABLE_3, "big", "released-2017", *ABLATIONS]


class VariationResult(NamedTuple):
    """Our results of a variation, one for each seed."""

    name: str
    seeds: list[TrialResult]
    operations: int  # of one source token and one target token, forward

    @property
    def published(self) -> tuple[float, float, float | None] | None:
        """The figures that the paper prints for the variation; None for a row that the paper does not have."""
        return PUBLISHED.get(self.name)

    @property
    def accuracy(self) -> float:
        """The mean accuracy over all seeds."""
        return statistics.fmean(result.accuracy for result in self.seeds)

    def values(self, metric: Metric) -> list[float]:
        """Returns the values of a metric, one for each seed."""
        return [float(result.score if metric == "bleu" else result.perplexity) for result in self.seeds]


class Ordering(NamedTuple):
    """The difference between a row and base, in the paper and in our results."""

    row: str
    metric: Metric
    published: float | None  # None: the paper does not have the row
    measured: float
    half_width: float | None  # of the 95 % confidence interval; None with one seed

    @property
    def verdict(self) -> str:
        """Whether our difference has the sign of the paper's difference or, if the paper has none, which is better."""
        if self.half_width is None:
            return "one seed"
        prints_equal = self.published is not None and abs(self.published) < PRINTED_EQUAL
        if prints_equal and abs(self.measured) + self.half_width < EQUIVALENT:
            return "holds: equal"
        if abs(self.measured) <= self.half_width:
            return "open"
        if self.published is None:
            return "better than base" if (self.measured > 0) == (self.metric == "bleu") else "worse than base"
        return "holds" if self.published * self.measured > 0 else "does not hold"


def run_table3(options: ExperimentOptions) -> tuple[str, list[VariationResult]]:
    """Trains the selected rows with several seeds.

    Returns a description of the corpus, and the recorded results of all rows and seeds.
    """
    scale, work, minutes = scale_named(options.scale), options.work, options.minutes
    names, corpus = options.select_rows(ROWS), scale.corpus
    if scale.width_divisor > 1:
        corpus += f", widths divided by {scale.width_divisor}, layers by {scale.layers_divisor}, {scale.steps:,} steps"
    prepared = shared_store(recipe_of(scale, "base", seed=1), work)
    for seed in range(1, options.seeds + 1):
        for name in ROWS:
            if name in names:
                run_trial(_trial(scale, name, seed), work, [_budget(scale, name, minutes)], options.training)
    vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
    rows = []
    for name in ROWS:
        operations = sum(flops(recipe_of(scale, name, seed=1).model, vocabulary))
        rows.append(VariationResult(name, _read_seeds(scale, name, minutes, work), operations))
    return corpus, rows


def compare_with_base(rows: Sequence[VariationResult]) -> list[Ordering]:
    """Compares every other row with base, by perplexity and by BLEU.

    Rows with a run that did not complete all its steps are left out.
    """
    complete = {row.name: row for row in rows if row.seeds and all(seed.is_complete for seed in row.seeds)}
    if "base" not in complete:
        return []
    base = complete.pop("base")
    orderings: list[Ordering] = []
    for row in complete.values():
        for place, metric in enumerate(METRICS):
            published = row.published and row.published[:2][place] - PUBLISHED["base"][:2][place]
            measured, half_width = difference(row.values(metric), base.values(metric))
            orderings.append(Ordering(row.name, metric, published, measured, half_width))
    return orderings


def difference(values: Sequence[float], base: Sequence[float]) -> tuple[float, float | None]:
    """Returns the difference of the means, and half the width of its 95 % confidence interval by Student's t.

    Both sides are assumed to have the same variance, so that a single value can be compared with several values. The
    interval is None if both sides have a single value.
    """
    delta = statistics.fmean(values) - statistics.fmean(base)
    degrees = len(values) + len(base) - 2
    if not degrees:
        return delta, None
    squares = sum((value - statistics.fmean(side)) ** 2 for side in (values, base) for value in side)
    return delta, student_quantile(degrees) * math.sqrt(squares / degrees * (1 / len(values) + 1 / len(base)))


def recipe_of(scale: Scale, name: str, seed: int) -> Recipe:
    """Returns the recipe of a row at a scale."""
    preset = PRESETS[name]
    training: dict[str, Any] = {
        "steps": None,
        "seed": seed,
        "average": None,
        "save_every": 1000,
        "label_smoothing": preset["training"]["label_smoothing"],
        "label_smoothing_over": preset["training"].get("label_smoothing_over", "all"),
    }
    if scale.width_divisor > 1:
        training |= {"schedule": {"kind": "paper", "warmup": scale.steps // 4}}
    return scale.recipe(divide_sizes(preset["model"], scale), training, name)


def divide_sizes(model: Values, scale: Scale) -> Values:
    """Returns the settings of a model with its widths and layer counts divided as the scale requires.

    The number of heads does not change.
    """

    def divide(values: Mapping[str, int]) -> Values:
        return {key: value // scale.width_divisor for key, value in values.items()}

    widths = {side: divide({key: model[side][key] for key in ("d_k", "d_v")}) for side in ("mixer", "cross")}
    layers = {side: max(1, model[side] // scale.layers_divisor) for side in ("encoder_layers", "decoder_layers")}
    d_ff = divide({"d_ff": model["feed_forward"]["d_ff"]})
    sizes = {**divide({"d_model": model["d_model"]}), **layers, **widths, "feed_forward": d_ff}
    smaller: Values = merged(model, sizes)
    return smaller


def _trial(scale: Scale, name: str, seed: int) -> Trial:
    return Trial(f"{name}-{seed}", recipe_of(scale, name, seed), scale.corpus_named("validation"))


def _budget(scale: Scale, name: str, minutes: float | None) -> Budget:
    return Budget("steps", scale.steps * (BIG_FACTOR if name == "big" else 1), minutes)


def _read_seeds(scale: Scale, name: str, minutes: float | None, work: Path) -> list[TrialResult]:
    """Returns the recorded results of a row, in the order of their seeds."""
    seeds = recorded_seeds(work, name)
    results = (read_trial(_trial(scale, name, seed), work, _budget(scale, name, minutes)) for seed in seeds)
    return [result for result in results if result is not None]


def as_text(rows: Sequence[VariationResult]) -> str:
    """Renders Table 3 with the paper's columns next to ours, and the verdicts on the paper's orderings."""
    return render_page("table3.md.jinja", rows=rows, orderings=compare_with_base(rows), length=FLOPS_LENGTH)
