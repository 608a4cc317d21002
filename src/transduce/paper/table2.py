"""Table 2: every system on the same corpus, at equal arithmetic and at equal time, and an ensemble of the best."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from transduce.corpus import Prepared
from transduce.measure import Score, scores
from transduce.model import ModelSpec, Vocabulary
from transduce.paper.counting import longest_chain
from transduce.paper.record import Record, add_record, records
from transduce.paper.scales import Scale
from transduce.paper.systems import SYSTEMS, System
from transduce.paper.trials import (
    RESAMPLES,
    Budget,
    Say,
    Trial,
    TrialResult,
    holds,
    operations_a_step,
    read_trial,
    run_trial,
    shared_store,
)
from transduce.recipe import Recipe
from transduce.recipe.presets import PRESETS
from transduce.runtime.device import choose_device
from transduce.settings import merged, validated
from transduce.trainer.train import TrainOptions
from transduce.trainer.validation import read_parallel_text
from transduce.translation.translator import Translator

ARITHMETIC, TIME = "arithmetic", "time"
ENSEMBLE, MEMBERS = "ensemble", 3
WAITED = (10, 20)  # words a side: 1.2 times as many, the columns of a Neural GPU, are whole numbers too
RISING = 8  # a rate rises for at most one in so many steps
SAVES = 72  # checkpoints of a training: the paper saves its base model every ten minutes of twelve hours
SAVES_OF_BIG = 504  # at the paper's scale: every ten minutes of three and a half days


class SystemResult(NamedTuple):
    """A system and what was found of it; nothing where it was not trained yet."""

    system: System
    arithmetic: TrialResult | None
    time: TrialResult | None
    waits: tuple[int, int]  # products that wait for each other in reading `WAITED` words a side, layer after layer
    trial: Trial


class SystemComparison(NamedTuple):
    """All rows, the score of the source itself, and of the best systems together."""

    at: Scale
    rows: list[SystemResult]
    copying: Score
    ensemble: tuple[list[str], Score | None] | None  # of which, and no score where not all their weights are here


def table2(
    at: Scale, names: Sequence[str], minutes: float | None, work: Path, options: TrainOptions, say: Say
) -> SystemComparison:
    """Trains the systems `names`, at most `minutes` each, and returns the results of all systems.

    A scale with `operations` trains each system to equal arithmetic and to equal time. A scale without them trains
    each system for the steps of its preset: 100,000, and 300,000 for `big` (paper section 5.2).
    """
    prepared = shared_store(_recipe(at, SYSTEMS[0]), work, say)
    asked = []
    for system in SYSTEMS:
        steps = _steps(at, system, prepared)
        trial = Trial(system.name, _recipe(at, system, steps), at.corpus_named("test"))
        budgets = [Budget(ARITHMETIC, steps, minutes)]
        if at.operations is not None:
            budgets.append(Budget(TIME, None, minutes))
        if system.name in names:
            run_trial(trial, work, budgets, options, say)
        asked.append((system, trial, budgets))
    rows = []
    for system, trial, budgets in asked:  # other processes have trained rows of it meanwhile
        arithmetic, time = [*(read_trial(trial, work, budget) for budget in budgets), None][:2]
        rows.append(SystemResult(system, arithmetic, time, _waits(trial.recipe.model), trial))
    corpus = read_parallel_text(at.corpus_named("test"))
    copying = scores(corpus.source, [corpus.target], bootstrap=RESAMPLES)["bleu"]
    return SystemComparison(at, rows, copying, _ensemble(at, rows, work, options))


def _steps(at: Scale, system: System, prepared: Prepared) -> int:
    """Returns the steps of a system: those of the scale's arithmetic, or of its preset where the scale has none."""
    if at.operations is None:
        return int(PRESETS[system.preset]["training"]["steps"])
    return max(1, round(at.operations / operations_a_step(_recipe(at, system), prepared)))


def _recipe(at: Scale, system: System, steps: int | None = None) -> Recipe:
    """The recipe of a system: the scale's, with its model and its rate.

    It is saved so often in the `steps` of the scale's arithmetic that no clock decides which weights are averaged
    there, and its rate rises for at most a share of them: a costly system has few.
    """
    small = at.name == "small"
    training = {"average": 5, "batch_tokens": 1024, "schedule": {"warmup": 200, "peak": system.peak}}
    training = {**(training if small else PRESETS[system.preset]["training"]), "steps": None}
    model = {**system.model(small), **({"dropout": at.dropout[system.name]} if system.name in at.dropout else {})}
    recipe = at.recipe(model, training, system.name)
    if steps is None:
        return recipe
    warmup = min(recipe.training.schedule.warmup, max(1, steps // RISING))
    saves = SAVES_OF_BIG if at.operations is None and system.preset == "big" else SAVES
    changes = {"save_every": max(1, steps // saves), "schedule": {"warmup": warmup}}
    return validated(Recipe, merged(recipe.as_dictionary(), {"training": changes}), place=system.name)


def _waits(spec: ModelSpec) -> tuple[int, int]:
    """The products of matrices that wait for each other, forward, at both lengths."""
    torch.manual_seed(1)
    model = spec.build(Vocabulary(source=8, target=8)).eval()

    def chain(words: int) -> int:
        sentence = torch.full((1, words), 4)
        return longest_chain(lambda: model(sentence, torch.ones_like(sentence, dtype=torch.bool), sentence))

    fewer, more = map(chain, WAITED)
    return fewer, more


def _ensemble(
    at: Scale, rows: Sequence[SystemResult], work: Path, options: TrainOptions
) -> tuple[list[str], Score | None] | None:
    """The best systems' mean, as far as they were trained; what is known of it outlives their weights."""
    last = [(row.trial, found) for row in rows if (found := row.time or row.arithmetic) is not None]
    best = sorted(last, key=lambda one: one[1].bleu, reverse=True)[:MEMBERS]
    if len(best) < MEMBERS:
        return None
    names = [trial.name for trial, _ in best]
    wanted = {"members": names, "weights": [found.weights for _, found in best]}
    for record in records(work, ENSEMBLE):
        if record.recipe == wanted and (score := record.told(Score)):
            return names, score
    if not all(holds(trial, work, found) for trial, found in best):
        return names, None
    corpus = read_parallel_text(at.corpus_named("test"))
    translator = Translator.load(*(work / name for name in names), device=str(choose_device(options.device)))
    outputs = [translation.text for translation in translator.translate(corpus.source)]
    score = scores(outputs, [corpus.target], bootstrap=RESAMPLES)["bleu"]
    add_record(work, Record(ENSEMBLE, wanted, score._asdict()))
    return names, score


def as_dictionary(found: SystemComparison) -> dict[str, Any]:
    """For JSON."""
    return {
        "rows": [
            {
                "system": row.system.name,
                ARITHMETIC: row.arithmetic and row.arithmetic._asdict(),
                TIME: row.time and row.time._asdict(),
                "waits": row.waits,
            }
            for row in found.rows
        ],
        "copying": found.copying._asdict(),
        "ensemble": found.ensemble
        and {"members": found.ensemble[0], **(found.ensemble[1]._asdict() if found.ensemble[1] else {})},
    }
