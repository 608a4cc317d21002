"""The suggestion: the candidate whose probe has the best validation, with what its training is expected to take."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from transduce.corpus import check_files, read_pairs
from transduce.recipe import from_values
from transduce.runtime.device import keep_freed_memory
from transduce.settings import merged
from transduce.suggestion.candidates import RecipeCandidate, candidates
from transduce.suggestion.probe import ProbeResult, run_probe
from transduce.trainer.dry_run import MAX_STEPS, whole_steps
from transduce.trainer.train import prepare

__all__ = ["Probed", "Suggestion", "rank", "suggest_recipe"]

PROBE_SHARE = 1 / 15  # of the minutes: four minutes for an hour


class Probed(NamedTuple):
    """A candidate and its probe."""

    candidate: RecipeCandidate
    result: ProbeResult


class Suggestion(NamedTuple):
    """A recipe, and what it is based on."""

    values: Mapping[str, Any]  # of the recipe, without corpora and defaults
    pairs: int
    probe_minutes: float
    probes: list[Probed]  # in their order
    best: Probed
    steps: int  # that fit into the minutes
    epochs: float


def suggest_recipe(
    given: Mapping[str, Any],
    minutes: float,
    *,
    place: str,
    say: Callable[[str], None],
    probe_minutes: float | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Suggestion:
    """Tries candidates for the corpora of `given`, a recipe whose values stay, and returns the best for `minutes`.

    Raises ValueError with `place` where `given` is no recipe, has no validation set or is of trees.
    """
    recipe = from_values(given, place=place, warn=say)
    if recipe.data.validation is None or recipe.data.tree_linearisation is not None:
        raise ValueError(
            f"{place}: a suggestion is chosen by the BLEU of a validation set: name translations in `data.validation`; "
            "`transduce split` takes a validation set out of a corpus"
        )
    check_files(recipe.data)
    pairs = sum(1 for corpus in recipe.data.train for _ in read_pairs(corpus))
    tried = candidates(pairs, {section: value for section, value in given.items() if section != "data"})
    share = probe_minutes or minutes * PROBE_SHARE
    say(f"{pairs:,} pairs; {len(tried)} probes of {share:.3g} minutes")
    corpora = {"data": given["data"]}
    recipes = [from_values({**_limited(candidate.values, minutes), **corpora}, place=place) for candidate in tried]
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(recipes[0], Path(folder), lambda line: None, threads=threads)
        probes = []
        for candidate, each in zip(tried, recipes, strict=True):
            say(candidate.name)
            probes.append(Probed(candidate, run_probe(each, prepared, share, device, threads, say)))
    best = max(probes, key=lambda probed: rank(probed.result))
    training = recipes[probes.index(best)].training
    steps = min(best.result.pace.steps_within(training, 60 * minutes), training.steps or MAX_STEPS)
    epochs = whole_steps(training, steps) / best.result.steps_per_epoch
    return Suggestion(_limited(best.candidate.values, minutes), pairs, share, probes, best, steps, epochs)


def rank(result: ProbeResult) -> tuple[float, float]:
    """Returns what the best probe has most of: BLEU, and with equal BLEU the smallest loss."""
    return result.score, -result.loss


def _limited(values: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """Returns the values of a recipe that trains for `minutes`, unless it has limits of its own."""
    limited: dict[str, Any] = merged({"training": {"minutes": minutes}}, values)
    return limited
