"""Table 2: the systems under one protocol, at both budgets, beside the figures of the paper."""

import shutil

import pytest
from paper_fixtures import MEMORY, TRANSFORMER, make_result

from transduce.measure.scoring import Score
from transduce.paper import table2
from transduce.paper.experiment_scales import ExperimentOptions
from transduce.paper.system_presets import PRESETS, SYSTEMS, System
from transduce.paper.table2 import PUBLISHED
from transduce.paper.trials import Budget, Trial, read_trial, run_trial
from transduce.run.train import TrainOptions
from transduce.settings import validated

PAPER = {
    "ByteNet": (23.75, None),
    "Deep-Att + PosUnk": (None, 39.2),
    "GNMT + RL": (24.6, 39.92),
    "ConvS2S": (25.16, 40.46),
    "MoE": (26.03, 40.56),
    "Deep-Att + PosUnk, ensemble": (None, 40.4),
    "GNMT + RL, ensemble": (26.30, 41.16),
    "ConvS2S, ensemble": (26.36, 41.29),
    "Transformer (base model)": (27.3, 38.1),
    "Transformer (big)": (28.4, 41.8),
}


@pytest.fixture
def systems(monkeypatch):
    """Returns three systems that train in a second each."""
    names = ("first", "second", "third")
    chosen = [System(name, None, "base", MEMORY if name == "third" else TRANSFORMER, 0.01) for name in names]
    monkeypatch.setattr(table2, "SYSTEMS", chosen)
    return chosen


def runner(scale, work, monkeypatch):
    """Returns a function that trains systems at a scale in a folder and returns the comparison."""
    monkeypatch.setattr(table2, "scale_named", lambda name: scale)
    return lambda names, seeds=1: table2.run_table2(
        ExperimentOptions("small", tuple(names), seeds, 0.02, work, 1, TrainOptions("cpu", 1))
    )[1]


def test_the_published_rows_are_the_papers():
    assert {row.name: (row.bleu_de, row.bleu_fr) for row in PUBLISHED} == PAPER


def test_every_system_is_beside_a_published_row_and_has_the_kind_of_its_preset():
    names = {row.name for row in PUBLISHED}
    assert {system.published for system in SYSTEMS} - {None} <= names
    assert len({system.name for system in SYSTEMS}) == len(SYSTEMS)
    for system in SYSTEMS:
        assert system.small["kind"] == PRESETS[system.preset]["model"]["kind"]


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_small_system_is_a_recipe(system, tiny):
    spec = table2._recipe(tiny, system).model
    assert validated(type(spec), spec.as_dictionary(), place="here") == spec


def test_only_recurrence_has_chains_that_grow_with_the_sentence(tiny):
    chains = {system.name: table2._chains(table2._recipe(tiny, system).model) for system in SYSTEMS}
    growing = {name for name, (short, long) in chains.items() if long > short}
    assert growing == {"rnnsearch", "luong", "gnmt", "neural-gpu"}


def test_no_clock_decides_which_weights_are_averaged_at_equal_arithmetic(tiny, systems, tmp_path):
    assert all(isinstance(table2._recipe(tiny, system, 720).training.save_every, int) for system in systems)
    assert table2._recipe(tiny, systems[0], 720).training.save_every == 10
    assert table2._recipe(tiny, systems[0], 1).training.save_every == 1


def test_a_rate_rises_for_an_eighth_of_the_steps_at_most(tiny, systems):
    steady = table2._recipe(tiny, systems[0]).training.schedule.warmup
    for steps, warmup in ((8 * steady, steady), (80, 10), (1, 1)):
        assert table2._recipe(tiny, systems[0], steps).training.schedule.warmup == min(steady, warmup)


def test_an_ensemble_needs_the_measured_weights(tiny, systems, tmp_path, monkeypatch):
    run = runner(tiny, tmp_path, monkeypatch)
    comparison = run([system.name for system in systems])
    assert table2._ensemble(tiny, comparison.rows, tmp_path, TrainOptions("cpu", 1))[1] is not None
    later = [row._replace(time=row.time._replace(weights="others")) for row in comparison.rows]
    names, score = table2._ensemble(tiny, later, tmp_path, TrainOptions("cpu", 1))
    assert score is None
    text = table2.as_text(comparison._replace(rows=later, ensemble=(names, score)))
    assert f"Ensemble of {', '.join(names)}, the best of these on the same test set: not all of their weights" in text


def test_rows_are_trained_at_both_budgets_and_the_best_are_joined(tiny, systems, tmp_path, monkeypatch):
    run = runner(tiny, tmp_path, monkeypatch)
    half = run(["first"])
    assert [row.time is None for row in half.rows] == [False, True, True]
    assert half.ensemble is None
    assert half.rows[0].time.reason.startswith("0.02 minutes are over")
    whole = run(["second", "third"])
    names, score = whole.ensemble
    assert sorted(names) == ["first", "second", "third"]
    assert isinstance(score, Score)
    monkeypatch.setattr(table2, "Translator", None)  # a recorded ensemble is not translated again
    again = run(["first"])
    assert again.ensemble == whole.ensemble
    for name in ("first", "second", "third"):  # nor without the weights
        shutil.rmtree(tmp_path / name)
    assert run(["first"]) == again
    text = table2.as_text(again)
    assert "| Transformer (big) | 28.4 | 41.8 | 2.3e+19 | 2.3e+19 |" in text
    assert "Copying the source: BLEU" in text
    assert f"Ensemble of {', '.join(names)}" in text


def test_rows_that_another_process_has_trained_are_in_the_table(tiny, systems, tmp_path, monkeypatch):
    def train_first_row_elsewhere(trial, work, budgets, options):
        """Trains the first system as another process would, before this process reads the results."""
        if trial.name == "third":
            first = trial._replace(name="first", recipe=trials["first"].recipe)
            run_trial(first, work, budgets, options)
        trials[trial.name] = trial

    trials = {}
    monkeypatch.setattr(table2, "run_trial", train_first_row_elsewhere)
    names = [system.name for system in systems]
    rows = runner(tiny, tmp_path, monkeypatch)(names).rows
    assert [row.time is None for row in rows] == [False, True, True]


def test_unfinished_budgets_and_the_best_systems_are_named():
    rows = [
        table2.SystemResult(
            "bytenet", make_result("bytenet", steps=20), make_result("bytenet", bleu=15.0, rate=2e11), (61, 61)
        ),
        table2.SystemResult("luong", make_result("luong", bleu=11.0), make_result("luong", bleu=13.0), (71, 141)),
        table2.SystemResult("gnmt", None, None, (111, 221)),
    ]
    comparison = table2.SystemComparison("small", "en-de", 1.5e13, rows, Score(0.5, "nrefs:1", None, None), None)
    text = table2.as_text(comparison)
    assert (
        "| bytenet | 1,234 | not reached | 15.00 [14.00, 16.00] | 1e+12, 1.2e+13 | 1.0 | 61 | ByteNet: 23.75 |" in text
    )
    assert "Equal arithmetic is 1.5e+13 operations" in text
    other = rows[1].time._replace(environment={"device": "H200", "threads": 1})
    text_of_two = table2.as_text(comparison._replace(rows=[rows[0], rows[1]._replace(time=other)]))
    assert "Equal time was not on equal machines: no best is named." in text_of_two
    assert "Best at equal time" not in text_of_two
    assert "| 1 + 7 n |" in text
    assert "| gnmt |  |  |  |  |  | 1 + 11 n | GNMT + RL: 24.6 |" in text
    assert "Best at equal arithmetic: luong, BLEU 11.00 [10.00, 12.00]." in text
    assert "Best at equal time: bytenet, BLEU 15.00 [14.00, 16.00]." in text


def test_seeds_stand_beside_each_other(tiny, systems, tmp_path, monkeypatch):
    run = runner(tiny, tmp_path, monkeypatch)
    comparison = run(["first"], seeds=2)
    assert [seed.trial for seed in comparison.rows[0].more_seeds] == ["first-2", "first-2"]
    assert {seed.trial for seed in comparison.rows[0].seeds(table2.TIME)} == {"first", "first-2"}
    assert not comparison.rows[1].more_seeds
    page = table2.as_text(comparison)
    mean = sum(seed.score for seed in comparison.rows[0].seeds(table2.TIME)) / 2
    assert "| system | equal arithmetic | equal time |\n| --- | --- | --- |\n| first | " in page
    assert f"{mean:.2f} ± " in page
    assert run([], seeds=1).rows[0].more_seeds == comparison.rows[0].more_seeds  # from the records


def test_the_steps_of_equal_arithmetic_may_differ_a_little(tiny, systems, tmp_path, monkeypatch):
    trained = runner(tiny, tmp_path, monkeypatch)(["first"]).rows[0].arithmetic
    trial = Trial("first", table2._recipe(tiny, systems[0], trained.steps), tiny.corpus_named("test"))
    for steps, is_found in ((trained.steps, True), (round(trained.steps * 1.004), True), (trained.steps * 2, False)):
        assert (read_trial(trial, tmp_path, Budget(table2.ARITHMETIC, steps, 0.02)) is not None) is is_found
