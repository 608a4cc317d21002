"""A trial: one recipe trained to one budget after another and measured at each, in a directory of its own.

What was measured is written down beside these directories, so that a table is filled row by row, by several processes
and devices, and goes on where it was stopped.
"""

import datetime
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transduce.bench.measurement import matrix_rate
from transduce.corpus import CorpusSpec, Planner, Prepared, open_store, prepare
from transduce.measure import scores
from transduce.model import Vocabulary
from transduce.model.flops import flops
from transduce.model.readout import Smoothing
from transduce.model_directory import RECIPE, Model, fingerprint
from transduce.paper.provenance import program
from transduce.paper.recipe_identity import is_same_recipe, recipe_identity
from transduce.paper.record import Record, add_record, records
from transduce.recipe import Recipe, read_yaml
from transduce.runtime.device import choose_device, count_cores, describe_environment
from transduce.settings import merged, validated
from transduce.storage.atomic import atomic_write_text
from transduce.storage.locks import LockHeldError, exclusive_lock, wait_for_lock
from transduce.trainer.run_directory import has_saved
from transduce.trainer.train import TrainOptions, run_training
from transduce.trainer.trainer import TrainResult
from transduce.trainer.validation import Validation, read_parallel_text
from transduce.training import DivergedError, Precision

__all__ = [
    "Budget",
    "Say",
    "Trial",
    "TrialResult",
    "holds",
    "operations_a_step",
    "read_trial",
    "run_trial",
    "shared_store",
]

RESAMPLES = 1000
LATE, SAVING = 0.02, 10.0  # a training ends with the step in which its time is over: so much later, and so many seconds

Say = Callable[[str], None]


class Trial(NamedTuple):
    """A row of a table under one seed: what is trained, on what it is measured, and what else is measured of it."""

    name: str
    recipe: Recipe
    test: CorpusSpec
    also: Mapping[str, Callable[[Model, Sequence[str]], Any]] = {}  # of the model and its translations, a JSON value


class Budget(NamedTuple):
    """How far a trial is trained before it is measured: whichever is over first."""

    name: str
    steps: int | None = None
    minutes: float | None = None


class TrialResult(NamedTuple):
    """What a trial was found to be at a budget; BLEU with the interval of the bootstrap, perplexity a subword."""

    trial: str
    budget: str
    steps: int | None
    minutes: float | None
    reason: str
    step: int
    words: int  # target words trained on
    seconds: float
    parameters: int
    operations: float  # of training, by our count
    perplexity: float
    accuracy: float
    bleu: float
    low: float
    high: float
    signature: str
    environment: dict[str, Any]
    rate: float | None = None  # operations a second of a product of float32 matrices on that device
    program: str | None = None  # version and commit that finished it
    also: Mapping[str, Any] = {}
    weights: str | None = None  # the fingerprint of the model that was measured
    when: str = ""  # in UTC

    @property
    def reached(self) -> bool:
        """Whether all steps of the budget were done."""
        return self.steps is not None and self.step >= self.steps


def run_trial(
    trial: Trial, work: Path, budgets: Iterable[Budget], options: TrainOptions, say: Say
) -> dict[str, TrialResult]:
    """Trains and measures where that was not done before; gives what was found at each budget.

    The budgets come in the order in which they are used up. A trial that diverges has no result, and keeps no other
    from being trained; one that another process is at work on is left to it, so that several share out the rows. A
    `ValueError` where one was trained beyond a budget, or what was saved there is of another recipe.
    """
    found = {}
    for budget in budgets:
        try:
            known = _known_or_trained(trial, work, budget, options, say)
        except DivergedError as error:
            say(f"{trial.name} has no result: {error}")
            break
        except LockHeldError:
            say(f"{trial.name} is left to the process that trains it; give the command again when that has ended")
            break
        say(
            f"{trial.name}, {budget.name}: step {known.step:,}, {known.seconds / 60:.1f} min, "
            f"perplexity {known.perplexity:.2f}, BLEU {known.bleu:.2f} [{known.low:.2f}, {known.high:.2f}]"
        )
        found[budget.name] = known
    return found


def _known_or_trained(trial: Trial, work: Path, budget: Budget, options: TrainOptions, say: Say) -> TrialResult:
    """What is known of a trial if it is all that is asked, else what one process at a time adds to it."""
    known = read_trial(trial, work, budget)
    if known is not None and trial.also.keys() <= known.also.keys():
        return known
    with exclusive_lock(work / "at-work" / trial.name, "training"):
        known = read_trial(trial, work, budget)  # the process before may have done it
        return _completed(trial, work, known, say) if known else _measured(trial, work, budget, options, say)


def read_trial(trial: Trial, work: Path, budget: Budget) -> TrialResult | None:
    """What was found before, here or elsewhere; None where that is of another recipe or budget.

    Of several the one that answers most of what is asked, and of these the latest.
    """
    same = [record for record in records(work, trial.name) if is_same_recipe(record.recipe, trial.recipe)]
    results = [record.told(TrialResult) for record in same]
    answers = [found for found in results if found is not None and _answers(found, budget)]
    return max(answers, key=lambda found: (len(trial.also.keys() & found.also.keys()), found.when), default=None)


def holds(trial: Trial, work: Path, found: TrialResult) -> bool:
    """Whether the weights that were measured are here; those of one in training change."""
    try:
        return fingerprint(work / trial.name) == found.weights
    except (ValueError, OSError):
        return False


def shared_store(recipe: Recipe, work: Path, say: Say) -> Prepared:
    """The corpus as subwords, made once for all trials that train on it, whoever of several processes is first.

    A `ValueError` where trainings have begun on another one.
    """
    shared = work / "shared"
    store = shared / "training" / "store"
    store.mkdir(parents=True, exist_ok=True)
    in_use = any(work.glob("*/training/step-*"))
    with wait_for_lock(shared):
        return prepare(recipe.data, recipe.subwords, store, threads=count_cores(), say=say, in_use=in_use)


def operations_a_step(recipe: Recipe, prepared: Prepared) -> float:
    """Floating-point operations of a mean step of training: three times those of reading and writing its words."""
    training, store = recipe.training, prepared.train
    planner = Planner(
        store, batch_tokens=training.batch_tokens, micro_batches=training.micro_batches, seed=training.seed
    )
    pairs = len(store.target_lengths)
    source, target = (float(lengths.sum()) + pairs for lengths in (store.source_lengths, store.target_lengths))
    vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
    read, written = flops(recipe.model, vocabulary, round(target / pairs))
    return 3 * (read * source + written * target) / planner.steps_per_epoch


def _answers(found: TrialResult, budget: Budget) -> bool:
    """Whether what was found is what this budget asks for."""
    if found.steps != budget.steps:
        return False
    return found.reached or found.minutes == budget.minutes


def _check_earlier(trial: Trial, out: Path) -> None:
    """A `ValueError` where weights were saved under another recipe: they are not trained over."""
    if (out / RECIPE).exists() and has_saved(out) and not is_same_recipe(read_yaml(out / RECIPE), trial.recipe):
        raise ValueError(
            f"{out} was trained by another recipe than `{trial.name}` has now: move it away, or choose another --work"
        )


def _measured(trial: Trial, work: Path, budget: Budget, options: TrainOptions, say: Say) -> TrialResult:
    """Trains on from where the trial stands, measures, and writes that down."""
    out = work / trial.name
    _check_earlier(trial, out)
    bounds = {"training": {"steps": budget.steps, "minutes": budget.minutes}}
    recipe = validated(Recipe, merged(trial.recipe.as_dictionary(), bounds), place=trial.name)
    _share(out)
    outcome = run_training(recipe, out, options, say)
    _check_budget(out, budget, outcome)
    found = _found(trial, recipe, out, budget, outcome, choose_device(options.device))
    add_record(work, Record(trial.name, recipe_identity(trial.recipe), found._asdict()))
    return found


def _completed(trial: Trial, work: Path, known: TrialResult, say: Say) -> TrialResult:
    """What is known of a trial, with what was not asked of it then measured now, where its weights are here."""
    missing = {name: measure for name, measure in trial.also.items() if name not in known.also}
    if not missing:
        return known
    if not holds(trial, work, known):
        say(f"{trial.name}: not measured, and the weights are not here: {'; '.join(missing)}")
        return known
    out = work / trial.name
    model, content = Model.read(out), (out / f"outputs-{known.budget}.txt").read_bytes()
    outputs = content.decode().removesuffix("\n").split("\n")  # a line ends at a newline, whatever a model writes
    more = {name: measure(model, outputs) for name, measure in missing.items()}
    found = known._replace(also={**known.also, **more})
    add_record(work, Record(trial.name, recipe_identity(trial.recipe), found._asdict()))
    return found


def _check_budget(out: Path, budget: Budget, outcome: TrainResult) -> None:
    """A `ValueError` where a training, of an earlier call, had gone beyond the budget."""
    remedy = "give a larger budget, or delete the directory"
    if budget.steps is not None and outcome.step > budget.steps:
        raise ValueError(
            f"{out} was trained for {outcome.step:,} steps, and {budget.name} asks for {budget.steps:,}: {remedy}"
        )
    moment = max(SAVING, 2 * outcome.seconds / max(1, outcome.step))
    if budget.minutes is not None and outcome.seconds > 60 * budget.minutes * (1 + LATE) + moment:
        raise ValueError(
            f"{out} was trained for {outcome.seconds / 60:.1f} minutes, and {budget.name} asks for "
            f"{budget.minutes:g}: {remedy}"
        )


def _share(out: Path) -> None:
    """Lets a trial find the store that stands beside it."""
    store, shared = out / "training" / "store", out.parent / "shared" / "training" / "store"
    if shared.exists() and not store.exists():
        store.parent.mkdir(parents=True, exist_ok=True)
        store.unlink(missing_ok=True)  # it has led to where the folder was before it was moved
        store.symlink_to(os.path.relpath(shared, store.parent), target_is_directory=True)


def _found(
    trial: Trial, recipe: Recipe, out: Path, budget: Budget, outcome: TrainResult, device: torch.device
) -> TrialResult:
    """Measures the model that a training has left."""
    model, corpus = Model.read(out), read_parallel_text(trial.test)
    module = model.module.to(device)
    valid = Validation(corpus, model.source, model.target, recipe.decoding, Smoothing(epsilon=0.0))(module)
    atomic_write_text(out / f"outputs-{budget.name}.txt", "".join(f"{line}\n" for line in valid.outputs))
    bleu = scores(valid.outputs, [corpus.target], bootstrap=RESAMPLES)["bleu"]
    assert bleu.low is not None
    assert bleu.high is not None
    prepared = open_store(out / "training" / "store")
    return TrialResult(
        trial=trial.name,
        budget=budget.name,
        steps=budget.steps,
        minutes=budget.minutes,
        reason=outcome.reason,
        step=outcome.step,
        words=outcome.tokens,
        seconds=outcome.seconds,
        parameters=sum(weight.numel() for weight in module.parameters()),
        operations=outcome.step * operations_a_step(recipe, prepared),
        perplexity=valid.perplexity,
        accuracy=valid.accuracy,
        bleu=bleu.score,
        low=bleu.low,
        high=bleu.high,
        signature=bleu.signature,
        environment={**describe_environment(device), "precision": Precision(recipe.training.precision, device).name},
        rate=matrix_rate(device, torch.float32),
        program=program(),
        also={name: measure(model, valid.outputs) for name, measure in trial.also.items()},
        weights=fingerprint(out),
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
