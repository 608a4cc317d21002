"""Suggests a recipe: tries each candidate in a short run, and chooses the one with the lowest validation loss.

The number of steps for the suggested run is estimated from the speed of the short run.
"""

import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transduce.corpus.readers import check_files, read_byte_pairs
from transduce.corpus.store.preparation import PreparedCorpus
from transduce.evaluation.validation import ValidationScore
from transduce.recipe.recipe import Recipe, from_values
from transduce.run.build import count_steps
from transduce.run.dry_run import MAX_STEPS, Pace, validation_seconds, whole_steps
from transduce.run.train import prepare
from transduce.run.trainer import Trainer
from transduce.runtime.device import choose_device, keep_freed_memory, training_numerics
from transduce.runtime.memory import peak_memory
from transduce.runtime.progress import quiet, stage
from transduce.settings import merged
from transduce.suggestion.candidates import (
    R_DROP_COST,
    RecipeCandidate,
    candidates,
    may_have_r_drop,
    r_drop_pays,
    with_checkpoints,
    with_dropout,
    with_r_drop,
)
from transduce.training.training_settings import Training

_log = logging.getLogger("transduce")

PROBE_SHARE = 1 / 15  # time of a probe as a share of the minutes for the run: four minutes for an hour
FEW_STEPS = 50  # a probe with fewer steps says little about a trained model


class Probe:
    """A short training run of a candidate, with the speed and the validation loss that it reached."""

    steps: int
    seconds_per_step: float
    loss: float  # validation loss with label smoothing, in nats per token

    def __init__(self, recipe: Recipe, prepared: PreparedCorpus, minutes: float, device: torch.device) -> None:
        """Trains `recipe` for `minutes` in a temporary directory, and computes the loss of its last weights."""
        limits = {"minutes": minutes, "steps": None, "epochs": None, "patience": None, "validate_every": None}
        saving = {"save_every": MAX_STEPS, "keep": 1, "average": None}  # saves only once, at the end
        training = recipe.training.replaced(**limits, **saving)
        with tempfile.TemporaryDirectory() as folder, quiet():
            probed = recipe.replaced(training=training)
            self._trainer = Trainer(probed, Path(folder), prepared, device)
            records = [(record.step, record.seconds) for record in self._trainer.train()]
        self.steps = records[-1][0]
        self.seconds_per_step = sum(seconds for _, seconds in records) / self.steps
        assert self._trainer.validation is not None
        self.loss = self._trainer.validation(self._trainer.model, translate=False).loss
        _log.info(f"  {self.steps:,} steps, validation loss {self.loss:.3f}")

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps in which the run reads every pair once."""
        return self._trainer.planner.steps_per_epoch

    def most_steps(self, training: Training) -> int:
        """Returns the maximum number of steps that a recipe allows, ignoring limits on time."""
        return min(MAX_STEPS, count_steps(training, self._trainer.planner) or MAX_STEPS)

    def validate(self) -> tuple[Pace, ValidationScore]:
        """Translates the validation set, and returns the estimated pace of a long run and the score of this short run.

        This may take minutes, because a model that has hardly been trained generates translations of the maximum
        length.
        """
        seconds, result = validation_seconds(self._trainer)
        assert result.score is not None
        return Pace(self.seconds_per_step, seconds), result.score


class Probed(NamedTuple):
    """A candidate, the number of steps in its probe, and the validation loss after these steps."""

    candidate: RecipeCandidate
    steps: int
    loss: float


class Suggestion(NamedTuple):
    """The suggested recipe, and the probes and measurements that it is based on."""

    values: Mapping[str, Any]  # the values of the recipe, without its corpora and without defaults
    pairs: int
    probe_minutes: float
    probes: list[Probed]  # in the order of the candidates
    best: Probed
    score: ValidationScore  # of the best probe's model
    peak_memory: float  # in bytes, over all probes
    adds_r_drop: bool  # whether the recipe has R-Drop, which the best probe did not have
    pace: Pace
    steps: int  # number of steps that fit in the minutes
    epochs: float


def suggest_recipe(
    recipe_values: Mapping[str, Any],
    minutes: float,
    *,
    place: str,
    probe_minutes: float | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Suggestion:
    """Tries several candidates for a recipe, and returns the best candidate for a run of `minutes`.

    Values in `recipe_values` are never changed. Raises ValueError, which names `place`, if `recipe_values` is not a
    valid recipe, has no validation set, or is for trees.
    """
    recipe = from_values(recipe_values, place=place)
    if recipe.data.validation is None or recipe.data.tree_linearisation is not None:
        raise ValueError(
            f"{place}: a suggestion is chosen by the loss of a validation set: name translations in `data.validation`; "
            "`transduce split` takes a validation set out of a corpus"
        )
    check_files(*recipe.data.train, *recipe.data.validations)
    pairs = sum(1 for corpus in recipe.data.train for _ in read_byte_pairs(corpus))
    fixed = {section: value for section, value in recipe_values.items() if section != "data" and value is not None}
    tried = candidates(pairs, fixed)
    share = probe_minutes or minutes * PROBE_SHARE
    _log.info(f"{pairs:,} pairs; {len(tried)} probes of {share:.3g} minutes")
    corpora = {"data": recipe_values["data"]}
    recipes = [from_values({**_limited(candidate.values, minutes), **corpora}, place=place) for candidate in tried]
    chosen = choose_device(device)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder, training_numerics(chosen, threads):
        prepared = prepare(recipes[0], Path(folder), threads=threads)
        probes, best, probe = _probe_all(tried, recipes, lambda recipe: Probe(recipe, prepared, share, chosen))
        with stage("best probe"):
            pace, score = probe.validate()
    training, values = recipes[tried.index(best.candidate)].training, best.candidate.values
    slower = pace._replace(step=R_DROP_COST * pace.step)
    adds_r_drop = may_have_r_drop(fixed) and r_drop_pays(
        pairs, training.batch_tokens, *_length(slower, training, minutes, probe)
    )
    if adds_r_drop:
        values, pace = with_r_drop(values, fixed), slower
    length = _length(pace, training, minutes, probe)
    values = with_dropout(values, length[1], fixed)
    values, memory = _limited(with_checkpoints(values, length[0], fixed), minutes), peak_memory(chosen)
    return Suggestion(values, pairs, share, probes, best, score, memory, adds_r_drop, pace, *length)


def _probe_all(
    tried: Sequence[RecipeCandidate],
    recipes: Sequence[Recipe],
    probe_of: Callable[[Recipe], Probe],
) -> tuple[list[Probed], Probed, Probe]:
    """Runs a probe for each candidate. Returns the results of all probes, the best result, and the best probe.

    Only the model of the best probe stays in memory. A candidate that cannot be trained, for example because it runs
    out of memory, is left out. If none can be trained, the error of the last candidate is raised.
    """
    probes: list[Probed] = []
    for number, (candidate, recipe) in enumerate(zip(tried, recipes, strict=True), start=1):
        _log.info(candidate.name)
        try:
            with stage(f"probe {number} of {len(tried)}"):
                probe = probe_of(recipe)
        except (ValueError, RuntimeError) as error:
            if candidate is tried[-1] and not probes:
                raise
            _log.info(f"  left out: {error}")
            continue
        probes.append(Probed(candidate, probe.steps, probe.loss))
        if min(probes, key=lambda probed: probed.loss) is probes[-1]:
            best, best_probe = probes[-1], probe
    if best.steps < FEW_STEPS:
        _log.warning(
            f"warning: after {best.steps} steps each, the candidates hardly differ, so the recipe is a guess; more "
            "--minutes give them more time"
        )
    return probes, best, best_probe


def _length(pace: Pace, training: Training, minutes: float, probe: Probe) -> tuple[int, float]:
    """Returns the number of steps and epochs that a run can take within all limits of its recipe.

    If the recipe does not limit the time, the run is limited to `minutes`.
    """
    steps = min(pace.steps_within(training, 60 * (training.minutes or minutes)), probe.most_steps(training))
    return steps, whole_steps(training, steps) / probe.steps_per_epoch


def _limited(values: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    """Returns the values of a recipe with a time limit of `minutes`, unless the recipe sets its own time limit."""
    limited: dict[str, Any] = merged({"training": {"minutes": minutes}}, values)
    return limited
