"""Trials: each budget is trained once, from the last checkpoint on, with the result of an uninterrupted training."""

import json
from unittest.mock import Mock

import pytest
import torch
from paper_fixtures import TRANSFORMER

from transduce.model.translation_model import Vocabulary, build_without_weights, flops
from transduce.model_directory.config import Weights
from transduce.paper.finished_runs import add_record, collect_records, distribute_records, read_records
from transduce.paper.printing import confidence_interval, describe_trainings
from transduce.paper.trials import (
    Budget,
    Trial,
    has_measured_weights,
    operations_a_step,
    read_trial,
    run_trial,
    shared_store,
)
from transduce.recipe.recipe import from_values
from transduce.run import build
from transduce.run.train import TrainOptions
from transduce.run.trainer import TrainResult
from transduce.settings import merged
from transduce.storage.locks import exclusive_lock
from transduce.training.divergence import DivergedError

CPU = TrainOptions("cpu", 1)


@pytest.fixture
def trial(tiny):
    return Trial("row", tiny.recipe(TRANSFORMER, {"average": None}, "row"), tiny.corpus_named("test"))


def test_the_model_is_measured_at_each_budget(trial, tmp_path):
    results = run_trial(trial, tmp_path, [Budget("few", 3), Budget("more", 6)], CPU)
    assert [each.step for each in results.values()] == [3, 6]
    assert results["few"].tokens < results["more"].tokens
    assert results["few"].perplexity != results["more"].perplexity
    alone = run_trial(trial._replace(name="alone"), tmp_path, [Budget("more", 6)], CPU)["more"]
    assert (alone.perplexity, alone.score, alone.tokens) == (
        results["more"].perplexity,
        results["more"].score,
        results["more"].tokens,
    )
    assert alone.operations == pytest.approx(2 * results["few"].operations)
    assert (tmp_path / "row" / "outputs-few.txt").read_text().count("\n") == 5


def test_trainings_are_counted_once_for_each_program_and_machine(trial, tmp_path):
    results = run_trial(trial, tmp_path, [Budget("few", 3), Budget("more", 6)], CPU)
    hour = results["more"]._replace(seconds=7200.0)
    line = describe_trainings([results["few"], hour])
    assert line.startswith("Trainings: 1, 2.0 hours together. ")
    line = describe_trainings([hour, hour._replace(trial="other", program="0.0 at abc")])
    assert line.startswith("Trainings: 2, 4.0 hours together, of several programs or machines. ")
    assert "1 by 0.0 at abc, 1 thread of " in line
    assert describe_trainings([]) == ""


def test_a_recorded_trial_is_not_trained_again(trial, tmp_path, monkeypatch):
    first = run_trial(trial, tmp_path, [Budget("few", 3)], CPU)
    monkeypatch.setattr("transduce.paper.trials.run_training", lambda *arguments: pytest.fail("trained again"))
    assert run_trial(trial, tmp_path, [Budget("few", 3, minutes=9.0)], CPU) == first


def test_a_trial_that_another_process_trains_is_skipped(trial, tmp_path, log_lines):
    with exclusive_lock(tmp_path / "row", "training"):
        assert not run_trial(trial, tmp_path, [Budget("few", 3)], CPU)
    assert log_lines[-1] == "another process trains row; run this command again when that process has ended"
    assert run_trial(trial, tmp_path, [Budget("few", 3)], CPU)["few"].step == 3


def test_a_larger_budget_goes_on_and_a_smaller_one_is_refused(trial, tmp_path, log_lines):
    run_trial(trial, tmp_path, [Budget("few", 3)], CPU)
    log_lines.clear()
    more = run_trial(trial, tmp_path, [Budget("few", 5)], CPU)["few"]
    assert more.step == 5
    assert any(line == "going on after step 3" for line in log_lines)
    with pytest.raises(ValueError, match=r"was trained for 5 steps, and few asks for 4"):
        run_trial(trial, tmp_path, [Budget("few", 4)], CPU)


def test_records_and_checkpoints_of_another_recipe_are_not_used(trial, tmp_path):
    few = Budget("few", 2)
    result = run_trial(trial, tmp_path, [few], CPU)["few"]
    assert read_trial(trial, tmp_path, few) == result
    assert read_trial(trial, tmp_path, Budget("few", 3)) is None
    other = trial._replace(
        recipe=from_values(merged(trial.recipe.as_dictionary(), {"model": {"dropout": 0.3}}), place="")
    )
    assert read_trial(other, tmp_path, few) is None
    with pytest.raises(ValueError, match="was trained with another recipe than `row` has now: move it away"):
        run_trial(other, tmp_path, [few], CPU)
    assert read_trial(trial, tmp_path, few) == result


def test_a_longer_training_is_no_result_of_a_shorter_budget(trial, tmp_path, monkeypatch):
    longer = run_trial(trial, tmp_path, [Budget("time", None, 0.05)], CPU)
    monkeypatch.setattr("transduce.paper.trials.SAVING", 0.0)
    with pytest.raises(ValueError, match=r"was trained for 0\.[0-9]+ minutes, and time asks for 0.001: give a larger"):
        run_trial(trial, tmp_path, [Budget("time", None, 0.001)], CPU)
    assert run_trial(trial, tmp_path, [Budget("time", None, 0.05)], CPU) == longer


@pytest.mark.parametrize(("seconds", "steps", "answers"), [(70, 100, True), (75, 100, False), (75, 2, True)])
def test_a_training_beyond_its_minutes_is_refused(trial, tmp_path, monkeypatch, seconds, steps, answers):
    """A training ends with a step and a checkpoint, and so a little late."""
    ended = TrainResult(steps, 1, seconds, "its time is over", Weights(kind="last", steps=(steps,)))
    monkeypatch.setattr("transduce.paper.trials.run_training", lambda *arguments: ended)
    monkeypatch.setattr("transduce.paper.trials._measure", Mock(side_effect=KeyError("measured")))
    with pytest.raises(
        KeyError if answers else ValueError, match=r"measured|was trained for 1\.2 minutes, and time asks for 1: give"
    ):
        run_trial(trial, tmp_path, [Budget("time", None, 1.0)], CPU)


def test_the_store_is_not_replaced_after_trainings_have_begun(trial, tmp_path):
    run_trial(trial, tmp_path, [Budget("few", 1)], CPU)
    shared_store(trial.recipe, tmp_path)
    changes = {"subwords": {"size": 300}}
    other = from_values(merged(trial.recipe.as_dictionary(), changes), place="")
    with pytest.raises(ValueError, match="a run has begun with it"):
        shared_store(other, tmp_path)


def test_a_trial_that_diverges_has_no_result_and_raises_no_error(trial, tmp_path, monkeypatch, log_lines):
    def diverged(*arguments):
        raise DivergedError("the loss is not a number")

    monkeypatch.setattr("transduce.paper.trials.run_training", diverged)
    assert run_trial(trial, tmp_path, [Budget("few", 1), Budget("more", 2)], CPU) == {}
    assert log_lines == ["row has no result: the loss is not a number"]


def test_a_record_with_an_unreadable_recipe_is_not_used(trial, tmp_path):
    run_trial(trial, tmp_path, [Budget("few", 1)], CPU)
    path = tmp_path / "found.jsonl"
    path.write_text(path.read_text().replace("batch_tokens", "batch_words"))
    assert read_trial(trial, tmp_path, Budget("few", 1)) is None


def test_a_record_with_other_fields_is_measured_again(trial, tmp_path):
    first = run_trial(trial, tmp_path, [Budget("few", 2)], CPU)["few"]
    path = tmp_path / "found.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "found": {"trial": "row"}}))
    assert (
        run_trial(trial, tmp_path, [Budget("few", 2)], CPU)["few"]._replace(rate=first.rate, when=first.when) == first
    )


def test_a_folder_may_be_moved(trial, tmp_path):
    shared_store(trial.recipe, tmp_path / "old")
    run_trial(trial, tmp_path / "old", [Budget("few", 2)], CPU)
    (tmp_path / "old").rename(tmp_path / "new")
    assert run_trial(trial, tmp_path / "new", [Budget("few", 3)], CPU)["few"].step == 3


def test_minutes_end_a_training_before_its_steps(trial, tmp_path):
    budgets = [Budget("arithmetic", 10**6, 0.001), Budget("time", None, 0.001)]
    results = run_trial(trial, tmp_path, budgets, CPU)
    assert not results["arithmetic"].is_complete
    assert results["time"].step == results["arithmetic"].step < 10**6


def test_of_several_results_the_latest_counts(trial, tmp_path):
    few = Budget("few", 2)
    first = run_trial(trial, tmp_path, [few], CPU)["few"]
    (record,) = read_records(tmp_path, "row")
    for bleu, when in ((1.0, "2000-01-01T00:00:00+00:00"), (99.0, "2999-01-01T00:00:00+00:00")):
        add_record(tmp_path, record._replace(result={**record.result, "score": bleu, "when": when}))
        latest = read_trial(trial, tmp_path, few).score
        assert latest == (first.score if when < first.when else 99.0)
    assert first.environment["precision"] == "float32"
    assert first.environment["threads"] == 1


def test_measured_weights_are_identified_by_their_fingerprint(trial, tmp_path):
    result = run_trial(trial, tmp_path, [Budget("few", 2)], CPU)["few"]
    assert has_measured_weights(result, tmp_path)
    assert not has_measured_weights(result._replace(weights="others"), tmp_path)
    assert not has_measured_weights(result._replace(trial="no row"), tmp_path)
    run_trial(trial, tmp_path, [Budget("few", 3)], CPU)
    assert not has_measured_weights(result, tmp_path)


def test_records_of_another_machine_are_used_and_not_overwritten(trial, tmp_path, monkeypatch):
    there, here, out = tmp_path / "there", tmp_path / "here", tmp_path / "out"
    few = Budget("few", 2)
    result = run_trial(trial, there / "table-small", [few], CPU)["few"]
    other = trial._replace(
        recipe=from_values(merged(trial.recipe.as_dictionary(), {"model": {"dropout": 0.3}}), place="")
    )
    mine = run_trial(other, here / "table-small", [few], CPU)["few"]
    collect_records(out, there)
    distribute_records(out, here)
    collect_records(out, here)
    monkeypatch.setattr("transduce.paper.trials.run_training", lambda *arguments: pytest.fail("trained again"))
    for work in (here, tmp_path / "new"):
        distribute_records(out, work)
        assert run_trial(trial, work / "table-small", [few], CPU)["few"] == result
        assert run_trial(other, work / "table-small", [few], CPU)["few"] == mine
    assert (out / "trainings.jsonl").read_text().count("\n") == 2


def test_a_record_is_used_wherever_the_corpora_are(trial, tmp_path):
    few = Budget("few", 2)
    result = run_trial(trial, tmp_path / "here", [few], CPU)["few"]
    assert str(tmp_path) not in (tmp_path / "here" / "found.jsonl").read_text()
    values = trial.recipe.as_dictionary()
    elsewhere = {"source": "/elsewhere/test.en", "target": "/elsewhere/test.de"}
    moved = trial._replace(
        recipe=from_values({**values, "data": {**values["data"], "test": {"test": elsewhere}}}, place="")
    )
    assert read_trial(moved, tmp_path / "here", few) == result
    other = from_values(
        {**values, "data": {**values["data"], "test": {"test": {**elsewhere, "target": "x.de"}}}}, place=""
    )
    assert read_trial(trial._replace(recipe=other), tmp_path / "here", few) is None


def test_trials_share_one_store(trial, tmp_path, log_lines):
    shared_store(trial.recipe, tmp_path)
    log_lines.clear()
    run_trial(trial, tmp_path, [Budget("few", 1)], CPU)
    assert not [line for line in log_lines if line.startswith("learning subwords")]
    assert (tmp_path / "row" / "training" / "store").is_symlink()
    assert json.loads((tmp_path / "found.jsonl").read_text())["trial"] == "row"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_arithmetic_of_a_step_is_that_of_its_words(trial, tmp_path, monkeypatch, device):
    """A GPU takes other steps than a CPU."""
    monkeypatch.setattr(build, "gpu_memory", lambda device: 80 * 2**30)
    prepared = shared_store(trial.recipe, tmp_path)

    store, pairs = prepared.train, 300
    words = [int(lengths.sum()) + pairs for lengths in (store.source_lengths, store.target_lengths)]
    vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
    read, written = flops(trial.recipe.model, vocabulary, round(words[1] / pairs))
    steps = -(-sum(words) // 2 // 512)  # at least so many
    result = operations_a_step(trial.recipe, prepared, torch.device(device))
    assert result <= 3 * (read * words[0] + written * words[1]) / steps
    assert result >= 3 * (read * words[0] + written * words[1]) / (2 * steps)
    model = build_without_weights(trial.recipe.model, vocabulary)
    taken = {
        name: build.build_planner(prepared, trial.recipe.training, torch.device(name), model).steps_per_epoch
        for name in ("cpu", "cuda")
    }
    assert taken["cpu"] != taken["cuda"]
    assert result == pytest.approx(3 * (read * words[0] + written * words[1]) / taken[device])


def test_the_confidence_interval_of_a_mean():
    assert confidence_interval([3.0]) == (3.0, None)
    mean, within = confidence_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert within == pytest.approx(4.303 / 3**0.5)
