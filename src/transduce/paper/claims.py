"""Does the paper hold? Its claims, each with the smallest test that could refute it and a verdict from the records.

The test of a claim is one or more differences, whose sign is positive if the paper is right. With three seeds and more,
the interval is Student's over seeds; with fewer, it is the bootstrap's over the sentences of the test.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.paper.artificial_tasks import BINS, accuracy_of
from transduce.paper.attention_heads import MANY, SeedHeads, heads_with_roles
from transduce.paper.distance_costs import DistanceResults
from transduce.paper.experiments import has_results, read_results
from transduce.paper.printing import confidence_interval, format_interval, render_page
from transduce.paper.recall_by_distance import DISTANCES
from transduce.paper.resolution import ITEMS, ItemRecall, measure_effects
from transduce.paper.scaled_dot_product import CompatibilityResult
from transduce.paper.system_presets import read_data
from transduce.paper.table2 import ARITHMETIC, TIME, SystemComparison
from transduce.paper.table3 import VariationResult, difference
from transduce.paper.table4 import ParserComparison
from transduce.paper.trials import TrialResult
from transduce.storage.atomic import atomic_write_text

LEAST_SEEDS = 3
EQUAL = 0.5  # BLEU: a difference whose whole interval is smaller counts as none
HOLDS, FAILS, OPEN = "holds", "fails here", "needs scale"
RIVALS = ("bytenet", "rnnsearch", "luong", "gnmt", "convs2s")  # recurrent and convolutional systems of Table 2
Value = Callable[[TrialResult], float]
PRINTED_D_K = 64  # the size of a key in the base model


class Evidence(NamedTuple):
    """A difference that a claim predicts, positive if the claim is right, and half of its 95 % confidence interval."""

    compared: str
    measured: float
    half_width: float
    seeds: int
    is_equality: bool = False

    @property
    def verdict(self) -> str:
        """Whether the interval lies on the claim's side, on the other side, or on both."""
        low, high = self.measured - self.half_width, self.measured + self.half_width
        if self.is_equality:
            low, high = EQUAL - max(abs(low), abs(high)), EQUAL - (min(abs(low), abs(high)) if low * high > 0 else 0.0)
        return HOLDS if low > 0 else FAILS if high < 0 else OPEN

    @property
    def interval(self) -> str:
        """The difference with its interval, as text."""
        return format_interval(self.measured, self.half_width, signed=True)


class Claim(NamedTuple):
    """A sentence of the paper, where it stands, the experiment that tests it, and the evidence in its results."""

    sentence: str
    section: str
    test: str
    experiment: str
    command: str
    evidence: list[Evidence]

    @property
    def seeds(self) -> int:
        """The least number of seeds of the evidence."""
        return min((each.seeds for each in self.evidence), default=0)

    @property
    def verdict(self) -> str:
        """`holds` if all evidence holds, `fails here` if any fails, else `needs scale`; "not run" without evidence."""
        verdicts = {each.verdict for each in self.evidence}
        return "not run" if not verdicts else FAILS if FAILS in verdicts else OPEN if OPEN in verdicts else HOLDS


def claims(out: Path) -> list[Claim]:
    """The claims with the evidence of the results in `out`; a claim has no evidence if its experiment was not run."""
    results = {
        name: read_results(name, out) for name in {each["experiment"] for each in _CLAIMS} if has_results(name, out)
    }
    return [
        Claim(
            **{key: each[key] for key in ("sentence", "section", "test", "experiment", "command")},
            evidence=TESTS[each["evidence"]](results[each["experiment"]]) if each["experiment"] in results else [],
        )
        for each in _CLAIMS
    ]


def print_claims(out: Path) -> str:
    """Returns the page of all claims; also writes it to `out` as claims.md.

    Raises ValueError if `out` has no results.
    """
    found = claims(out)
    if not any(claim.evidence for claim in found):
        raise ValueError(f"there are no results in {out}: `transduce paper table3 --run --out {out}` makes the first")
    verdicts = {verdict: [claim for claim in found if claim.verdict == verdict] for verdict in (HOLDS, FAILS, OPEN)}
    page = render_page("claims.md.jinja", claims=found, verdicts=verdicts, least_seeds=LEAST_SEEDS, equal=EQUAL)
    atomic_write_text(out / "claims.md", page + "\n")
    return page


def _compared(compared: str, better: Sequence[TrialResult], worse: Sequence[TrialResult], value: Value) -> Evidence:
    """The difference of the means of two rows, as Table 3 has it.

    With fewer than `LEAST_SEEDS` it is that of the first runs, and the bootstraps of both scores are independent.
    """
    seeds = min(len(better), len(worse))
    if seeds < LEAST_SEEDS:
        half_width = math.hypot(*((result.high - result.low) / 2 for result in (better[0], worse[0])))
        return Evidence(compared, value(better[0]) - value(worse[0]), half_width, seeds=1)
    measured, half = difference(list(map(value, better)), list(map(value, worse)))
    return Evidence(compared, measured, half or 0.0, seeds)


def _bleu(result: TrialResult) -> float:
    return result.score


def _perplexity(result: TrialResult) -> float:
    return result.perplexity


def _beside_rivals(budget: str, comparison: SystemComparison) -> list[Evidence]:
    """Base against the best recurrent or convolutional system."""
    rows = {row.name: row.seeds(budget) for row in comparison.rows}
    rivals = [name for name in RIVALS if rows.get(name)]
    if not rows.get("base") or not rivals:
        return []
    best = max(rivals, key=lambda name: statistics.fmean(map(_bleu, rows[name])))
    return [_compared(f"base − {best}", rows["base"], rows[best], _bleu)]


def _of_rows(*pairs: tuple[str, str, Value], is_equality: bool = False) -> Callable[..., list[Evidence]]:
    """A test that compares rows of Table 3 by a value of their runs."""

    def test(rows: Sequence[VariationResult]) -> list[Evidence]:
        named = {row.name: row.seeds for row in rows if row.seeds}
        return [
            _compared(f"{first} − {second}", named[first], named[second], value)._replace(is_equality=is_equality)
            for first, second, value in pairs
            if first in named and second in named
        ]

    return test


def _extrapolation(results: DistanceResults) -> list[Evidence]:
    """Copying beyond the lengths of training, by base: the share of right words minus that within them, in points."""
    for result in results.systems:
        within, beyond = (accuracy_of(result, "copying", bounds) for bounds in (BINS[2], BINS[-1]))
        if result.trial == "base" and within is not None and beyond is not None:
            return [Evidence("33–48 words − 17–24 words", 100 * (beyond - within), 0.0, seeds=1)]
    return []


def _scaling(results: Sequence[CompatibilityResult]) -> list[Evidence]:
    """Scaled against unscaled dot products at d_k 64."""
    runs = {each.kind: each.training for each in results if each.d_k == PRINTED_D_K and each.training}
    if not {"scaled_dot", "dot"} <= runs.keys():
        return []
    return [_compared("scaled − unscaled", [runs["scaled_dot"]], [runs["dot"]], _bleu)]


def _parsing(comparison: ParserComparison) -> list[Evidence]:
    """The paper's parser against the recurrent one."""
    seeds = {parser.name: parser.seeds for parser in comparison.parsers}
    transformer, recurrent = seeds.get("transformer", []), seeds.get("recurrent", [])
    return [_compared("transformer − recurrent", transformer, recurrent, _bleu)] if transformer and recurrent else []


def _distance(results: DistanceResults) -> list[Evidence]:
    """Recall of the first of 129 symbols, by attention and by the best recurrent or convolutional mixer, in points."""
    recalled = {each.mixer: 100 * each.accuracy for each in results.mixers if each.distance == DISTANCES[-1]}
    others = {name: share for name, share in recalled.items() if not name.startswith("attention")}
    if "attention" not in recalled or not others:
        return []
    best = max(others, key=lambda name: others[name])
    return [Evidence(f"attention − {best}", recalled["attention"] - others[best], 0.0, seeds=1)]


def _tasks(seeds: Sequence[SeedHeads]) -> list[Evidence]:
    """The number of different heads that are the best at a role that holds, minus one."""
    return [_of_counts("heads − 1", heads_with_roles(seeds), 1)]


def _structure(seeds: Sequence[SeedHeads]) -> list[Evidence]:
    """The number of encoder heads that follow a syntactic relation, minus a quarter of all heads."""
    followers = [seed.followers(trained=True) for seed in seeds]
    return [_of_counts("heads − a quarter", followers, MANY * len(seeds[0].costs("encoder")))]


def _of_counts(compared: str, counts: Sequence[float], least: float) -> Evidence:
    mean, half_width = confidence_interval([count - least for count in counts])
    return Evidence(compared, mean, math.inf if half_width is None else half_width, len(counts))


def _resolution(results: Sequence[ItemRecall]) -> list[Evidence]:
    """The gain of many heads over one, in points of recall, when the most items are asked for at once."""
    effects = [effect for effect in measure_effects(results) if effect.items == max(ITEMS)]
    gains = [
        (effect.steps, confidence_interval([100 * gain for gain in effect.gain]), len(effect.gain))
        for effect in effects
    ]
    return [
        Evidence(f"after {steps:,} steps", mean, math.inf if half is None else half, seeds)
        for steps, (mean, half), seeds in gains
    ]


TESTS: dict[str, Callable[..., list[Evidence]]] = {
    "equal_arithmetic": lambda results: _beside_rivals(ARITHMETIC, results),
    "equal_time": lambda results: _beside_rivals(TIME, results),
    "heads": _of_rows(("base", "A1", _bleu), ("base", "A4", _bleu)),
    "key_size": _of_rows(("base", "B1", _bleu), ("base", "B2", _bleu)),
    "size": _of_rows(("C3", "C1", _bleu), ("C5", "C4", _bleu), ("C7", "C6", _bleu)),
    "dropout": _of_rows(("base", "D1", _bleu)),
    "learned_positions": _of_rows(("E", "base", _bleu), is_equality=True),
    "label_smoothing": _of_rows(("base", "D3", _perplexity), ("base", "D3", _bleu)),
    "extrapolation": _extrapolation,
    "distance": _distance,
    "scaling": _scaling,
    "parsing": _parsing,
    "resolution": _resolution,
    "tasks": _tasks,
    "structure": _structure,
}
"""The test of each claim, by its name in claims.yaml, for the results of the claim's experiment."""

_CLAIMS: list[dict[str, str]] = read_data("claims.yaml")
