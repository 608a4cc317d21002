"""Reproduces Table 2, which compares all systems on the same corpus, at equal arithmetic and at equal time.

The best systems are also measured as an ensemble.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import torch

from transduce.corpus.readers import read_parallel_text
from transduce.measure.scoring import Score, scores
from transduce.model.model_spec import ModelSpec
from transduce.model.translation_model import Vocabulary
from transduce.paper.counting import longest_chain
from transduce.paper.experiment_scales import ExperimentOptions, LanguagePair, Scale, ScaleName, scale_named
from transduce.paper.finished_runs import Record, add_record, one_of, read_records
from transduce.paper.printing import describe_device, format_optional, format_score, render_page
from transduce.paper.system_presets import PRESETS, SYSTEMS, System, read_data
from transduce.paper.trials import (
    RESAMPLES,
    Budget,
    Trial,
    TrialResult,
    has_measured_weights,
    operations_a_step,
    read_trial,
    run_trial,
    shared_store,
)
from transduce.recipe.recipe import Recipe
from transduce.run.train import TrainOptions
from transduce.runtime.device import choose_device
from transduce.settings import merged, validated
from transduce.translation.translator import Translator

ARITHMETIC, TIME = "arithmetic", "time"
ENSEMBLE, MEMBERS = "ensemble", 3
CHAIN_LENGTHS = (10, 20)  # words per side; the columns of a Neural GPU, 1.2 times as many, are whole numbers too
WARMUP_SHARE = 8  # the warm-up takes at most 1/8 of the steps
SAVES = 72  # checkpoints of a run; the paper saves its base model every ten minutes for twelve hours
MOST_SEEDS = 9  # maximum number of seeds whose results are read
SAVES_OF_BIG = 504  # checkpoints at the paper's scale, where big is saved every ten minutes for three and a half days


class Published(NamedTuple):
    """A row of the paper's Table 2: BLEU on newstest2014, and the floating-point operations of training."""

    name: str
    bleu_de: float | None = None
    bleu_fr: float | None = None
    operations_de: float | None = None
    operations_fr: float | None = None


PUBLISHED = [Published(**row) for row in read_data("published.yaml")["table2"]]


class SystemResult(NamedTuple):
    """The results of a system; a result is None if the system has not been trained to that budget yet."""

    name: Annotated[str, one_of(system.name for system in SYSTEMS)]
    arithmetic: TrialResult | None
    time: TrialResult | None
    chains: tuple[int, int]  # matrix products of the longest chain, with `CHAIN_LENGTHS` words per side
    more_seeds: list[TrialResult] = []  # noqa: RUF012 - of further seeds, at both budgets

    def seeds(self, budget: str) -> list[TrialResult]:
        """Returns the results of all seeds at the budget `ARITHMETIC` or `TIME`.

        At equal arithmetic, runs that stopped early are left out.
        """
        results = [self.arithmetic, self.time, *self.more_seeds]
        return [each for each in results if each and each.budget == budget and (budget == TIME or each.is_complete)]

    @property
    def system(self) -> System:
        """The definition of the system."""
        return next(system for system in SYSTEMS if system.name == self.name)


class EnsembleResult(NamedTuple):
    """The names of the best systems and the score of their ensemble.

    The score is None if some of the systems' weights are missing.
    """

    members: list[str]
    score: Score | None


class SystemComparison(NamedTuple):
    """The results of all systems, the score of the untranslated source, and the ensemble of the best systems."""

    scale: ScaleName
    pair: LanguagePair
    operations: float | None  # of each run at equal arithmetic; None if each system has the steps of its preset
    rows: list[SystemResult]
    copying: Score
    ensemble: EnsembleResult | None


def run_table2(options: ExperimentOptions) -> tuple[str, SystemComparison]:
    """Trains the selected systems; returns a description of the corpus and the recorded results of all systems.

    If the scale sets `operations`, each system is trained to equal arithmetic and to equal time. Otherwise, each system
    is trained for the steps of its preset: 100,000, or 300,000 for `big` (section 5.2 of the paper). Every run also
    ends when its minutes are used up.
    """
    scale, work = scale_named(options.scale), options.work
    names = options.select_rows([system.name for system in SYSTEMS])
    minutes = options.minutes or scale.minutes
    prepared = shared_store(_recipe(scale, SYSTEMS[0]), work)
    trials: dict[str, list[tuple[Trial, list[Budget]]]] = {}
    for system in SYSTEMS:
        if scale.operations is None:
            steps = int(PRESETS[system.preset]["training"]["steps"])
        else:  # counted for steps on a CPU, so that every device finds the results of the others
            per_step = operations_a_step(_recipe(scale, system), prepared, torch.device("cpu"))
            steps = max(1, round(scale.operations / per_step))
        budgets = [Budget(ARITHMETIC, steps, minutes)]
        if scale.operations is not None:
            budgets.append(Budget(TIME, None, minutes))
        trials[system.name] = []
        for seed in range(1, MOST_SEEDS + 1):
            name = system.name if seed == 1 else f"{system.name}-{seed}"
            trial = Trial(name, _recipe(scale, system, steps, seed), scale.corpus_named("test"))
            if system.name in names and seed <= options.seeds:
                run_trial(trial, work, budgets, options.training)
            trials[system.name].append((trial, budgets))
    rows = []
    for name, of_seeds in trials.items():  # read after all runs, because other processes may have trained rows
        first, *others = ([read_trial(trial, work, budget) for budget in budgets] for trial, budgets in of_seeds)
        time = first[1] if len(first) > 1 else None
        more_seeds = [result for results in others for result in results if result]
        rows.append(SystemResult(name, first[0], time, _chains(of_seeds[0][0].recipe.model), more_seeds))
    corpus = read_parallel_text(scale.corpus_named("test"))
    copying = scores(corpus.source, [corpus.target], bootstrap=RESAMPLES)["bleu"]
    ensemble = _ensemble(scale, rows, work, options.training)
    return scale.corpus, SystemComparison(scale.name, scale.pair, scale.operations, rows, copying, ensemble)


def _recipe(scale: Scale, system: System, steps: int | None = None, seed: int = 1) -> Recipe:
    """Returns the recipe of a system at a scale, for a run of `steps`.

    Checkpoints are saved after fixed numbers of steps, so that the weights that are averaged do not depend on the
    clock. The warm-up takes at most 1/`WARMUP_SHARE` of the steps, because a costly system has few steps.
    """
    is_small = scale.name == "small"
    training = {"average": 5, "batch_tokens": 1024, "schedule": {"warmup": 200, "peak": system.peak}}
    training = {**(training if is_small else PRESETS[system.preset]["training"]), "steps": None}
    dropout = {"dropout": scale.dropout[system.name]} if system.name in scale.dropout else {}
    recipe = scale.recipe({**system.model(is_small), **dropout}, training, system.name)
    if steps is None:
        return recipe
    warmup = min(recipe.training.schedule.warmup, max(1, steps // WARMUP_SHARE))
    saves = SAVES_OF_BIG if scale.operations is None and system.preset == "big" else SAVES
    changes = {"save_every": max(1, steps // saves), "schedule": {"warmup": warmup}, "seed": seed}
    return validated(Recipe, merged(recipe.as_dictionary(), {"training": changes}), place=system.name)


def _chains(spec: ModelSpec) -> tuple[int, int]:
    """Returns the number of matrix products in the longest chain of a forward pass, at both `CHAIN_LENGTHS`."""
    torch.manual_seed(1)
    model = spec.build(Vocabulary(source=8, target=8)).eval()

    def chain(length: int) -> int:
        sentence = torch.full((1, length), 4)
        return longest_chain(lambda: model(sentence, torch.ones_like(sentence, dtype=torch.bool), sentence))

    shorter, longer = map(chain, CHAIN_LENGTHS)
    return shorter, longer


def _ensemble(scale: Scale, rows: Sequence[SystemResult], work: Path, options: TrainOptions) -> EnsembleResult | None:
    """Returns the ensemble of the best systems, with its score from the records or from translating the test set now.

    Returns None if fewer than `MEMBERS` systems have results. The record remains when the weights are deleted.
    """
    results = [result for row in rows if (result := row.time or row.arithmetic) is not None]
    best = sorted(results, key=lambda result: result.score, reverse=True)[:MEMBERS]
    if len(best) < MEMBERS:
        return None
    names = [result.trial for result in best]
    settings = {"members": names, "weights": [result.weights for result in best]}
    for record in read_records(work, ENSEMBLE):
        if record.recipe == settings and (score := record.parse(Score)):
            return EnsembleResult(names, score)
    if not all(has_measured_weights(result, work) for result in best):
        return EnsembleResult(names, None)
    corpus = read_parallel_text(scale.corpus_named("test"))
    translator = Translator.load(*(work / name for name in names), device=str(choose_device(options.device)))
    outputs = translator.translate(corpus.source)
    score = scores(outputs, [corpus.target], bootstrap=RESAMPLES)["bleu"]
    add_record(work, Record(ENSEMBLE, settings, score._asdict()))
    return EnsembleResult(names, score)


def as_text(comparison: SystemComparison) -> str:
    """Renders the table of our systems, its explanations, and the paper's rows."""
    has_time = comparison.operations is not None  # at the paper's scale there are only the steps of the presets
    first_budget = "equal arithmetic" if has_time else "the steps of its preset"
    results = [result for row in comparison.rows for result in (row.arithmetic, row.time) if result]
    at_arithmetic = [row.arithmetic for row in comparison.rows if row.arithmetic and row.arithmetic.is_complete]
    at_time = [row.time for row in comparison.rows if row.time]
    best = []
    for budget, contenders in ((first_budget, at_arithmetic), ("equal time", at_time)):
        if contenders is at_time and len({describe_device(result.environment) for result in at_time}) > 1:
            best.append("Equal time was not on equal machines: no best is named.")
        elif contenders:
            winner = max(contenders, key=lambda result: result.score)
            best.append(f"Best at {budget}: {winner.trial}, BLEU {format_score(winner)}.")
    if comparison.ensemble is not None:
        names, score = comparison.ensemble
        joint = "not all of their weights are here"
        if score is not None:
            joint = f"BLEU {score.score:.2f} [{score.low:.2f}, {score.high:.2f}]"
        best.append(f"Ensemble of {', '.join(names)}, the best of these on the same test set: {joint}.")
    rates_of_machine: dict[str, list[float]] = {}
    for result in results:
        if result.rate:
            rates_of_machine.setdefault(describe_device(result.environment), []).append(result.rate)
    # The median over the runs of a machine, because a single run may have shared the machine.
    rates = {machine: statistics.median(values) for machine, values in rates_of_machine.items()}
    head = [
        "system",
        "parameters",
        f"BLEU at {first_budget}",
        *(["BLEU at equal time"] if has_time else []),
        f"operations{' at equal time' if has_time else ''}, ours and by the paper's rule",
        f"minutes{', at equal arithmetic and at equal time' if has_time else ''}",
        "sequential products",
        "beside it in the paper",
    ]
    signatures = sorted({comparison.copying.signature, *(result.signature for result in results)})
    peaks = {row.system.name: row.system.peak for row in comparison.rows}
    return render_page(
        "table2.md.jinja",
        comparison=comparison,
        head=head,
        cells=[_cells(row, comparison.pair, rates, has_time) for row in comparison.rows],
        signatures=signatures,
        peaks=peaks,
        usual_peak=Counter(peaks.values()).most_common(1)[0][0],
        results=[*results, *(seed for row in comparison.rows for seed in row.more_seeds)],
        best=best,
        compared=[row for row in comparison.rows if row.more_seeds],
        budgets={first_budget: ARITHMETIC, **({"equal time": TIME} if has_time else {})},
        published=PUBLISHED,
    )


def _cells(row: SystemResult, pair: str, rates: dict[str, float], has_time: bool) -> list[str]:
    """Returns the cells of a system in the table, including those of equal time if the scale has that budget."""
    last, name = row.time or row.arithmetic, row.system.name
    # The longest chain as a linear function of n, from its values at `CHAIN_LENGTHS`.
    (shorter, longer), (at_shorter, at_longer) = CHAIN_LENGTHS, row.chains
    slope = (at_longer - at_shorter) / (longer - shorter)
    chain = f"{at_shorter - shorter * slope:.0f}" + (f" + {slope:g} n" if slope else "")
    beside = row.system.remark
    if row.system.published:
        (published,) = (each for each in PUBLISHED if each.name == row.system.published)
        bleu = published.bleu_de if pair == "en-de" else published.bleu_fr
        beside = published.name + format_optional(bleu, ": {}")
    if last is None:
        return [name, *[""] * (5 if has_time else 4), chain, beside]
    at_arithmetic = row.arithmetic if row.arithmetic and row.arithmetic.is_complete else None
    rate = rates.get(describe_device(last.environment))
    return [
        name,
        f"{last.parameters:,}",
        format_score(at_arithmetic) if at_arithmetic else "not reached",
        *([format_score(row.time) if row.time else ""] if has_time else []),
        f"{last.operations:.2g}" + (f", {last.seconds * rate:.2g}" if rate else ""),
        ", ".join(f"{result.seconds / 60:.1f}" for result in (at_arithmetic, row.time) if result),
        chain,
        beside,
    ]
