"""Tests the claims of the paper against the recorded results, each with the smallest test that could refute it.

A test consists of one or more differences, which are positive if the paper is right. With at least three seeds, the
confidence interval of a difference is Student's over the seeds; with fewer, it is the bootstrap interval over the test
sentences.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from transduce.paper import bleu_by_length
from transduce.paper.artificial_tasks import BINS, accuracy_of
from transduce.paper.attention_heads import MANY, SeedHeads, heads_with_roles
from transduce.paper.distance_costs import DistanceResults
from transduce.paper.experiments import has_results, read_results
from transduce.paper.head_roles import ALIGNED
from transduce.paper.printing import confidence_interval, format_interval, render_page
from transduce.paper.recall_by_distance import DISTANCES
from transduce.paper.resolution import LEAST, ItemRecall, measure_effects
from transduce.paper.scaled_dot_product import WIDTHS, CompatibilityResult
from transduce.paper.system_presets import read_data
from transduce.paper.table2 import ARITHMETIC, TIME, SystemComparison
from transduce.paper.table3 import PUBLISHED, VariationResult, difference
from transduce.paper.table4 import ParserComparison
from transduce.paper.trials import TrialResult
from transduce.storage.atomic import atomic_write_text

LEAST_SEEDS = 3
EQUAL = 0.5  # points: rows count as equal if the whole interval of their difference is smaller than this
HOLDS, FAILS, OPEN = "holds", "fails here", "needs scale"
RIVALS = ("bytenet", "rnnsearch", "luong", "gnmt", "convs2s")  # recurrent and convolutional systems of Table 2
Value = Callable[[TrialResult], float]
TOLERATED = 5.0  # points of accuracy that a model may lose on sentences that are longer than those of its training


class Evidence(NamedTuple):
    """A difference that a claim predicts, with half the width of its 95 % confidence interval.

    The difference is positive if the claim is right. If `is_equality`, the claim instead predicts a difference close to
    0.
    """

    compared: str
    measured: float
    half_width: float
    seeds: int
    published: float | None = None  # the paper's difference
    is_equality: bool = False

    @property
    def verdict(self) -> str:
        """`HOLDS` if the whole interval supports the claim, `FAILS` if all of it contradicts the claim, else `OPEN`."""
        low, high = self.measured - self.half_width, self.measured + self.half_width
        if self.is_equality:
            low, high = EQUAL - max(abs(low), abs(high)), EQUAL - (min(abs(low), abs(high)) if low * high > 0 else 0.0)
        return HOLDS if low > 0 else FAILS if high < 0 else OPEN

    @property
    def text(self) -> str:
        """The difference with its interval and, if the paper reports one, the paper's difference."""
        has_interval = 0 < self.half_width < math.inf or self.seeds >= LEAST_SEEDS
        measured = format_interval(self.measured, self.half_width if has_interval else None, signed=True)
        paper = "" if self.published is None else f" (the paper: {self.published:+.2f})"
        return f"{self.compared}: {measured}{paper}"


class Claim(NamedTuple):
    """A sentence of the paper with its section, the experiment that tests it, and the evidence from the results."""

    sentence: str
    section: str
    test: str
    experiment: str
    command: str
    evidence: list[Evidence]

    @property
    def seeds(self) -> int:
        """The smallest number of seeds behind any of the evidence, or 0 if there is no evidence."""
        return min((each.seeds for each in self.evidence), default=0)

    @property
    def verdict(self) -> str:
        """`holds` if all evidence holds, `fails here` if any of it fails, otherwise `needs scale`.

        The verdict is "not run" if there is no evidence, and `needs scale` if there are fewer than `LEAST_SEEDS` seeds.
        """
        verdicts = {each.verdict for each in self.evidence}
        if not verdicts:
            return "not run"
        if self.seeds < LEAST_SEEDS:
            return OPEN
        return FAILS if FAILS in verdicts else OPEN if OPEN in verdicts else HOLDS


def claims(out: Path) -> list[Claim]:
    """Returns all claims, with the evidence from the results in `out`.

    A claim has no evidence if its experiment has not been run.
    """
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
    """Returns the page of all claims, and writes it to `claims.md` in `out`.

    Raises ValueError if `out` contains no results.
    """
    found = claims(out)
    if not any(claim.evidence for claim in found):
        raise ValueError(f"there are no results in {out}: `transduce paper table3 --run --out {out}` makes the first")
    verdicts = {verdict: [claim for claim in found if claim.verdict == verdict] for verdict in (HOLDS, FAILS, OPEN)}
    page = render_page("claims.md.jinja", claims=found, verdicts=verdicts, least_seeds=LEAST_SEEDS, equal=EQUAL)
    atomic_write_text(out / "claims.md", page + "\n")
    return page


def _compared(compared: str, better: Sequence[TrialResult], worse: Sequence[TrialResult], value: Value) -> Evidence:
    """Returns the difference between the means of two rows, with an interval as in Table 3.

    With fewer than `LEAST_SEEDS` seeds, only the first run of each row is compared, and the interval combines the
    bootstrap intervals of the two scores as if they were independent.
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


def _negative_perplexity(result: TrialResult) -> float:
    return -result.perplexity


def _accuracy(result: TrialResult) -> float:
    return 100 * result.accuracy


def _beside_rivals(budget: str, comparison: SystemComparison) -> list[Evidence]:
    """Compares base with the best recurrent or convolutional system."""
    rows = {row.name: row.seeds(budget) for row in comparison.rows}
    rivals = [name for name in RIVALS if rows.get(name)]
    if not rows.get("base") or not rivals:
        return []
    best = max(rivals, key=lambda name: statistics.fmean(map(_bleu, rows[name])))
    return [_compared(f"base − {best}", rows["base"], rows[best], _bleu)]


def _of_rows(*pairs: tuple[str, str], is_equality: bool = False) -> Callable[..., list[Evidence]]:
    """Returns a test that compares pairs of rows of Table 3 by BLEU and by perplexity.

    The sign of perplexity is changed, because a lower perplexity is better.
    """

    def test(rows: Sequence[VariationResult]) -> list[Evidence]:
        named = _complete(rows)
        return [
            _compared(f"{name} {first} − {second}", named[first], named[second], value)._replace(
                published=_published_difference(first, second, column, sign), is_equality=is_equality
            )
            for first, second in pairs
            for name, value, column, sign in (("BLEU", _bleu, 1, 1), ("−perplexity", _negative_perplexity, 0, -1))
            if first in named and second in named
        ]

    return test


def _published_difference(first: str, second: str, column: int, sign: int = 1) -> float | None:
    """Returns the paper's difference between two rows of Table 3, in perplexity (column 0) or in BLEU (column 1).

    Multiplies it by `sign`. Returns None if the paper does not have one of the rows.
    """
    if not {first, second} <= PUBLISHED.keys():
        return None
    return sign * (PUBLISHED[first][:2][column] - PUBLISHED[second][:2][column])


def _complete(rows: Sequence[VariationResult]) -> dict[str, list[TrialResult]]:
    """Returns the runs of each row, without the rows that have a run that did not complete all its steps."""
    return {row.name: row.seeds for row in rows if row.seeds and all(seed.is_complete for seed in row.seeds)}


def _label_smoothing(rows: Sequence[VariationResult]) -> list[Evidence]:
    """Compares perplexity, accuracy (in percentage points) and BLEU with and without label smoothing."""
    named = _complete(rows)
    if not {"base", "D3"} <= named.keys():
        return []
    published = {"perplexity": _published_difference("base", "D3", 0), "BLEU": _published_difference("base", "D3", 1)}
    values: dict[str, Value] = {"perplexity": _perplexity, "accuracy": _accuracy, "BLEU": _bleu}
    return [
        _compared(f"{name} base − D3", named["base"], named["D3"], value)._replace(published=published.get(name))
        for name, value in values.items()
    ]


def _extrapolation(results: DistanceResults) -> list[Evidence]:
    """Tests whether models extrapolate to sentences that are longer than those of their training.

    The evidence is the BLEU of sinusoids minus that of learned positions on long sentences, and the loss of accuracy
    when base copies longer sentences. A loss of up to `TOLERATED` points counts as none.
    """
    evidence, longest = [], bleu_by_length.BINS[-1]
    scores = {result.trial: bleu_by_length.score_of(result, longest) for result in results.positions}
    sinusoids, learned = scores.get("sinusoids"), scores.get("learned")
    if sinusoids and learned:
        half_width = math.hypot(*((score.high - score.low) / 2 for score in (sinusoids, learned)))
        evidence.append(Evidence("BLEU sinusoids − learned", sinusoids.bleu - learned.bleu, half_width, seeds=1))
    for result in results.systems:
        within, beyond = (accuracy_of(result, "copying", bounds) for bounds in (BINS[2], BINS[-1]))
        if result.trial == "base" and within is not None and beyond is not None:
            loss = 100 * (beyond - within)
            evidence.append(Evidence(f"copied words + {TOLERATED:g}", loss + TOLERATED, 0.0, seeds=1))
    return evidence


def _scaling(results: Sequence[CompatibilityResult]) -> list[Evidence]:
    """Compares unscaled with scaled dot products.

    The evidence is by how much more BLEU and the softmax gradient fall without scaling than with it when d_k increases.
    """
    of = {(each.kind, each.d_k): each for each in results}
    small, large = WIDTHS[0], WIDTHS[-1]
    if not all((kind, d_k) in of for kind in ("scaled_dot", "dot") for d_k in (small, large)):
        return []

    def extra_fall(value: Callable[[CompatibilityResult], float | None]) -> float:
        falls = [(value(of[kind, small]) or 0.0) - (value(of[kind, large]) or 0.0) for kind in ("dot", "scaled_dot")]
        return falls[0] - falls[1]

    return [
        Evidence("fall of BLEU", extra_fall(lambda each: each.training and each.training.score), 0.0, seeds=1),
        Evidence("of the trained gradient", extra_fall(lambda each: each.trained_gradient), 0.0, seeds=1),
        Evidence("of the fresh gradient", extra_fall(lambda each: each.fresh_gradient), 0.0, seeds=1),
    ]


def _parsing(comparison: ParserComparison) -> list[Evidence]:
    """Compares the paper's parser with the recurrent parser."""
    seeds = {parser.name: parser.seeds for parser in comparison.parsers}
    transformer, recurrent = seeds.get("transformer", []), seeds.get("recurrent", [])
    return [_compared("transformer − recurrent", transformer, recurrent, _bleu)] if transformer and recurrent else []


def _distance(results: DistanceResults) -> list[Evidence]:
    """Compares attention with the other mixers on recall over 128 positions, and base with rnnsearch on agreement.

    The differences are in percentage points.
    """
    recalled = {each.mixer: 100 * each.accuracy for each in results.mixers if each.distance == DISTANCES[-1]}
    others = {name: share for name, share in recalled.items() if not name.startswith("attention")}
    systems = {result.trial: result for result in results.systems}
    if "attention" not in recalled or not others or not {"base", "rnnsearch"} <= systems.keys():
        return []
    best = max(others, key=lambda name: others[name])
    evidence = [Evidence(f"recall, attention − {best}", recalled["attention"] - others[best], 0.0, seeds=1)]
    for place, bounds in (("within", BINS[2]), ("beyond", BINS[-1])):
        base, recurrent = (accuracy_of(systems[name], "agreement", bounds) for name in ("base", "rnnsearch"))
        if base is not None and recurrent is not None:
            compared = f"agreement {place} the lengths of training, base − rnnsearch"
            evidence.append(Evidence(compared, 100 * (base - recurrent), 0.0, seeds=1))
    return evidence


def _tasks(seeds: Sequence[SeedHeads]) -> list[Evidence]:
    """Counts the different encoder heads that are the best head for a role that holds, and subtracts one."""
    return [_of_counts("heads − 1", heads_with_roles(seeds, without=[ALIGNED]), 1)]


def _structure(seeds: Sequence[SeedHeads]) -> list[Evidence]:
    """Returns the number of encoder heads that follow a syntactic relation, minus a quarter of all encoder heads."""
    followers = [seed.followers(trained=True) for seed in seeds]
    return [_of_counts("heads − a quarter", followers, MANY * len(seeds[0].costs("encoder")))]


def _of_counts(compared: str, counts: Sequence[float], least: float) -> Evidence:
    mean, half_width = confidence_interval([count - least for count in counts])
    return Evidence(compared, mean, math.inf if half_width is None else half_width, len(counts))


def _resolution(items: int, results: Sequence[ItemRecall]) -> list[Evidence]:
    """Returns what one head loses if it must recall several items at once, and what many heads gain over one head.

    Both are differences of recall in percentage points, from which `LEAST` is subtracted.
    """
    evidence = []
    for effect in measure_effects(results):
        if effect.items == items:
            for name, shares in (("one item − several", effect.fall), ("8 heads − one", effect.gain)):
                mean, half_width = confidence_interval([100 * (share - LEAST) for share in shares])
                compared = f"{name} − {100 * LEAST:g}, {effect.steps:,} steps"
                evidence.append(Evidence(compared, mean, math.inf if half_width is None else half_width, len(shares)))
    return evidence


TESTS: dict[str, Callable[..., list[Evidence]]] = {
    "equal_arithmetic": lambda results: _beside_rivals(ARITHMETIC, results),
    "equal_time": lambda results: _beside_rivals(TIME, results),
    "heads": _of_rows(("base", "A1"), ("base", "A4")),
    "key_size": _of_rows(("base", "B1"), ("base", "B2")),
    "size": _of_rows(("C3", "C1"), ("C5", "C4"), ("C7", "C6")),
    "dropout": _of_rows(("base", "D1")),
    "learned_positions": _of_rows(("E", "base"), is_equality=True),
    "positions": _of_rows(("base", "no-positions")),
    "label_smoothing": _label_smoothing,
    "extrapolation": _extrapolation,
    "distance": _distance,
    "scaling": _scaling,
    "parsing": _parsing,
    "resolution_of_two": partial(_resolution, 2),
    "resolution_of_four": partial(_resolution, 4),
    "tasks": _tasks,
    "structure": _structure,
}
"""The tests by their names in claims.yaml; each turns the results of the claim's experiment into evidence."""

_CLAIMS: list[dict[str, str]] = read_data("claims.yaml")
