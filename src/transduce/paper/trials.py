"""Trains a recipe to one budget after another, and measures the model at each of them.

The results are recorded next to the run directories, so that several processes and devices can fill in a table row by
row, and continue it after an interruption.
"""

import contextlib
import datetime
import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from transduce.bench.timing import matrix_rate
from transduce.corpus.corpus_kinds import PATHS, CorpusSpec
from transduce.corpus.readers import read_parallel_text
from transduce.corpus.store.preparation import PreparedCorpus, open_store, prepare
from transduce.evaluation.validation import Validation
from transduce.model.cross_entropy import Smoothing
from transduce.model.translation_model import Vocabulary, build_without_weights, flops
from transduce.model_directory.manifest import RECIPE, fingerprint
from transduce.model_directory.model import Model
from transduce.paper.finished_runs import Record, add_record, read_records
from transduce.paper.provenance import program_version
from transduce.recipe.recipe import Recipe
from transduce.recipe.recipe_values import read_yaml
from transduce.run.build import build_planner
from transduce.run.run_directory import has_saved
from transduce.run.train import TrainOptions, run_training
from transduce.run.trainer import TrainResult
from transduce.runtime.device import choose_device, count_cores, describe_environment
from transduce.settings import merged, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.locks import LockHeldError, exclusive_lock, wait_for_lock
from transduce.training.divergence import DivergedError
from transduce.training.precision import Precision

_log = logging.getLogger("transduce")

RESAMPLES = 1000
UNBOUNDED = {"steps": None, "epochs": None, "minutes": None}
STEPS_TOLERANCE = 0.005  # the steps of equal arithmetic vary by up to this share with the shapes of the batches
LATE, SAVING = 0.02, 10.0  # a run may exceed its minutes by this share, plus these seconds for saving at the end


class Trial(NamedTuple):
    """A recipe, the corpus on which its model is measured, and further measures of the model."""

    name: str
    recipe: Recipe
    test: CorpusSpec
    measures: Mapping[str, Callable[[Model, Sequence[str]], Any]] = {}  # (model, translations) → a JSON value


class Budget(NamedTuple):
    """The limits of a run in steps and minutes; the run ends as soon as it reaches one of them."""

    name: str
    steps: int | None = None
    minutes: float | None = None


class TrialResult(NamedTuple):
    """The result of a trial at a budget; `low` and `high` bound the bootstrap confidence interval of its score."""

    trial: str
    budget: str
    steps: int | None
    minutes: float | None
    reason: str
    step: int
    tokens: int  # target tokens trained on
    seconds: float
    parameters: int
    operations: float  # of training, as `operations_a_step` counts them
    perplexity: float  # per subword
    accuracy: float
    score: float  # BLEU, or F1 of a parser
    low: float
    high: float
    signature: str
    environment: dict[str, Any]
    rate: float | None = None  # operations per second of a large product of float32 matrices on that device
    program: str | None = None  # version and commit of the call that ended the run
    measures: Mapping[str, Any] = {}
    weights: str | None = None  # fingerprint of the measured model
    when: str = ""  # in UTC
    metric: Literal["bleu", "f1"] = "bleu"

    @property
    def is_complete(self) -> bool:
        """True if the whole step budget has been used up."""
        return self.steps is not None and self.step >= self.steps


def run_trial(trial: Trial, work: Path, budgets: Iterable[Budget], options: TrainOptions) -> dict[str, TrialResult]:
    """Returns the result at each budget, from its record or, if there is none, by training and measuring the model.

    The budgets must be in the order in which they are used up. If training diverges, or if another process is training
    the trial, it has no result at this and later budgets, and other trials can go on. Raises ValueError if a trial was
    trained beyond a budget, or if its run directory has checkpoints of another recipe.
    """
    results = {}
    for budget in budgets:
        try:
            result = read_trial(trial, work, budget)
            if result is None:
                with exclusive_lock(work / "at-work" / trial.name, "training"):
                    # The process that had the lock may have recorded a result.
                    result = read_trial(trial, work, budget) or _train_and_measure(trial, work, budget, options)
        except DivergedError as error:
            _log.info(f"{trial.name} has no result: {error}")
            break
        except LockHeldError:
            _log.info(f"another process trains {trial.name}; run this command again when that process has ended")
            break
        score = f"{result.metric.upper()} {result.score:.2f} [{result.low:.2f}, {result.high:.2f}]"
        trained = f"step {result.step:,}, {result.seconds / 60:.1f} min"
        _log.info(f"{trial.name}, {budget.name}: {trained}, perplexity {result.perplexity:.2f}, {score}")
        results[budget.name] = result
    return results


def read_trial(trial: Trial, work: Path, budget: Budget) -> TrialResult | None:
    """Returns the recorded result of a trial at a budget, or None if no record has this recipe and budget.

    If several results match, the one with the most measures of the trial is returned and, among equals, the latest.
    """
    same = [record for record in read_records(work, trial.name) if is_same_recipe(record.recipe, trial.recipe)]
    parsed = [record.parse(TrialResult) for record in same]
    results = [
        result
        for result in parsed
        if result is not None
        and _are_equal_steps(result.steps, budget.steps)
        and (result.is_complete or result.minutes == budget.minutes)  # minutes do not matter once all steps are done
    ]
    return max(
        results, key=lambda result: (len(trial.measures.keys() & result.measures.keys()), result.when), default=None
    )


def _are_equal_steps(recorded: int | None, steps: int | None) -> bool:
    """Returns True if two step counts are equal within `STEPS_TOLERANCE`.

    None stands for a run that is limited only by time; it is equal only to None.
    """
    if recorded is None or steps is None:
        return recorded == steps
    return math.isclose(recorded, steps, rel_tol=STEPS_TOLERANCE)


def has_measured_weights(result: TrialResult, work: Path) -> bool:
    """Returns True if the run directory of a trial has exactly the weights that were measured, and no later ones."""
    try:
        return fingerprint(work / result.trial) == result.weights
    except (ValueError, OSError):
        return False


def shared_store(recipe: Recipe, work: Path) -> PreparedCorpus:
    """Returns the token store on which all trials in `work` are trained; the first of several processes creates it.

    Raises ValueError if runs have already begun on another corpus.
    """
    shared = work / "shared"
    store = shared / "training" / "store"
    store.mkdir(parents=True, exist_ok=True)
    in_use = any(work.glob("*/training/step-*"))
    with wait_for_lock(shared):
        return prepare(recipe.data, recipe.subwords, store, threads=count_cores(), in_use=in_use)


def operations_a_step(recipe: Recipe, prepared: PreparedCorpus, device: torch.device) -> float:
    """Returns the floating-point operations of an average training step on `device`.

    They are estimated as three times the operations of a forward pass.
    """
    store = prepared.train
    pairs = len(store.target_lengths)
    source, target = (float(lengths.sum()) + pairs for lengths in (store.source_lengths, store.target_lengths))
    vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
    planner = build_planner(prepared, recipe.training, device, build_without_weights(recipe.model, vocabulary))
    encoding, decoding = flops(recipe.model, vocabulary, round(target / pairs))
    return 3 * (encoding * source + decoding * target) / planner.steps_per_epoch


def _train_and_measure(trial: Trial, work: Path, budget: Budget, options: TrainOptions) -> TrialResult:
    """Trains from the last checkpoint until the budget is used up, then measures the model and records the result."""
    out = work / trial.name
    if (out / RECIPE).exists() and has_saved(out) and not is_same_recipe(read_yaml(out / RECIPE), trial.recipe):
        raise ValueError(
            f"{out} was trained with another recipe than `{trial.name}` has now: move it away, or choose another --work"
        )
    bounds = {"training": {"steps": budget.steps, "minutes": budget.minutes}}
    recipe = validated(Recipe, merged(trial.recipe.as_dictionary(), bounds), place=trial.name)
    store, shared = out / "training" / "store", work / "shared" / "training" / "store"
    if shared.exists() and not store.exists():
        store.parent.mkdir(parents=True, exist_ok=True)
        store.unlink(missing_ok=True)  # a broken link, of a folder that was moved
        with contextlib.suppress(OSError):  # on Windows few users may link; then the trial writes a store of its own
            store.symlink_to(os.path.relpath(shared, store.parent), target_is_directory=True)
    outcome = run_training(recipe, out, options)
    # An earlier call may have trained beyond the budget.
    remedy = "give a larger budget, or delete the directory"
    if budget.steps is not None and outcome.step > budget.steps:
        raise ValueError(
            f"{out} was trained for {outcome.step:,} steps, and {budget.name} asks for {budget.steps:,}: {remedy}"
        )
    tolerance = max(SAVING, 2 * outcome.seconds / max(1, outcome.step))  # a run ends after a whole step
    if budget.minutes is not None and outcome.seconds > 60 * budget.minutes * (1 + LATE) + tolerance:
        raise ValueError(
            f"{out} was trained for {outcome.seconds / 60:.1f} minutes, and {budget.name} asks for "
            f"{budget.minutes:g}: {remedy}"
        )
    result = _measure(trial, recipe, out, budget, outcome, choose_device(options.device))
    add_record(work, Record(trial.name, recipe_identity(trial.recipe), result._asdict()))
    return result


def _measure(
    trial: Trial, recipe: Recipe, out: Path, budget: Budget, outcome: TrainResult, device: torch.device
) -> TrialResult:
    """Measures the model in a run directory, and writes its translations to the same directory."""
    model, corpus = Model.read(out), read_parallel_text(trial.test)
    module = model.module.to(device)
    validation = Validation(
        corpus,
        model.source,
        model.target,
        recipe.decoding,
        Smoothing(epsilon=0.0),
        linearisation=model.config.linearisation,
        bootstrap=RESAMPLES,
    )(module)
    atomic_write_text(out / f"outputs-{budget.name}.txt", "".join(f"{line}\n" for line in validation.outputs))
    score = validation.score
    assert score is not None
    return TrialResult(
        trial=trial.name,
        budget=budget.name,
        steps=budget.steps,
        minutes=budget.minutes,
        reason=outcome.reason,
        step=outcome.step,
        tokens=outcome.tokens,
        seconds=outcome.seconds,
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        operations=outcome.step * operations_a_step(recipe, open_store(out / "training" / "store"), device),
        perplexity=validation.perplexity,
        accuracy=validation.accuracy,
        **score._asdict(),
        environment={**describe_environment(device), "precision": Precision(recipe.training.precision, device).name},
        rate=matrix_rate(device, torch.float32),
        program=program_version(),
        measures={name: measure(model, validation.outputs) for name, measure in trial.measures.items()},
        weights=fingerprint(out),
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def is_same_recipe(written: Any, recipe: Recipe) -> bool:
    """Returns True if `written`, the values of a recipe file, has the same identity as `recipe`."""
    budget = {key: getattr(recipe.training, key) for key in UNBOUNDED}  # some schedules must know where a run ends
    try:
        earlier = validated(Recipe, merged(written, {"training": budget}), place="recipe")
    except ValueError:
        return False
    return bool(recipe_identity(earlier) == recipe_identity(recipe))


def recipe_identity(recipe: Recipe) -> Any:
    """Returns the values of a recipe without its budget, with the paths of corpora reduced to file names."""
    return _without_folders(merged(recipe.as_dictionary(), {"training": UNBOUNDED}))


def _without_folders(values: Any) -> Any:
    match values:
        case dict():
            return {
                key: Path(value).name if key in PATHS and isinstance(value, str) else _without_folders(value)
                for key, value in values.items()
            }
        case list():
            return [_without_folders(value) for value in values]
    return values
