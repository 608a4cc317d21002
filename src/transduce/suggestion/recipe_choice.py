"""The suggestion: the candidate whose probe has the least validation loss, with what its training should take."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from transduce.corpus import check_files, read_pairs
from transduce.recipe import Recipe, from_values
from transduce.runtime.device import choose_device, keep_freed_memory, training_numerics
from transduce.runtime.peak_memory import peak_memory
from transduce.settings import merged
from transduce.suggestion.candidates import RecipeCandidate, candidates
from transduce.suggestion.probe import Probe
from transduce.trainer.dry_run import MAX_STEPS, Pace, whole_steps
from transduce.trainer.train import prepare
from transduce.trainer.validation import ValidationScore

__all__ = ["Probed", "Suggestion", "suggest_recipe"]

PROBE_SHARE = 1 / 15  # of the minutes: four minutes for an hour


class Probed(NamedTuple):
    """A candidate, the steps of its probe, and the validation loss after them."""

    candidate: RecipeCandidate
    steps: int
    loss: float


class Suggestion(NamedTuple):
    """A recipe, and what it is based on."""

    values: Mapping[str, Any]  # of the recipe, without corpora and defaults
    pairs: int
    probe_minutes: float
    probes: list[Probed]  # in their order
    best: Probed
    score: ValidationScore  # of the best probe
    peak_memory: float  # bytes, of all probes
    pace: Pace
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
    pairs = _count_pairs(from_values(given, place=place, warn=say), place)
    tried = candidates(pairs, {section: value for section, value in given.items() if section != "data"})
    share = probe_minutes or minutes * PROBE_SHARE
    say(f"{pairs:,} pairs; {len(tried)} probes of {share:.3g} minutes")
    corpora = {"data": given["data"]}
    recipes = [from_values({**_limited(candidate.values, minutes), **corpora}, place=place) for candidate in tried]
    chosen = choose_device(device)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder, training_numerics(chosen, threads):
        prepared = prepare(recipes[0], Path(folder), lambda line: None, threads=threads)
        probes: list[Probed] = []
        for candidate, each in zip(tried, recipes, strict=True):
            say(candidate.name)
            probe = Probe(each, prepared, share, chosen, say)
            probes.append(Probed(candidate, probe.steps, probe.loss))
            best = min(probes, key=lambda probed: probed.loss)
            if best is probes[-1]:
                best_probe = probe  # the only one whose model stays in memory
        pace, score = best_probe.validate()
    training = recipes[probes.index(best)].training
    steps = min(pace.steps_within(training, 60 * minutes), training.steps or MAX_STEPS)
    epochs = whole_steps(training, steps) / best_probe.steps_per_epoch
    values = _limited(best.candidate.values, minutes)
    return Suggestion(values, pairs, share, probes, best, score, peak_memory(chosen), pace, steps, epochs)


def _count_pairs(recipe: Recipe, place: str) -> int:
    """Returns the number of pairs to train on; raises ValueError where the recipe lets nothing be suggested."""
    if recipe.data.validation is None or recipe.data.tree_linearisation is not None:
        raise ValueError(
            f"{place}: a suggestion is chosen by the loss of a validation set: name translations in `data.validation`; "
            "`transduce split` takes a validation set out of a corpus"
        )
    check_files(recipe.data)
    return sum(1 for corpus in recipe.data.train for _ in read_pairs(corpus))


def _limited(values: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """Returns the values of a recipe that trains for `minutes`, unless it has limits of its own."""
    limited: dict[str, Any] = merged({"training": {"minutes": minutes}}, values)
    return limited
