"""A trial is trained once to each budget, goes on from where it stands, and finds the same as a training of its own."""

import json
from unittest.mock import Mock

import pytest
from paper_fixtures import TRANSFORMER

from transduce.model_directory import Weights
from transduce.paper.confidence_interval import confidence_interval
from transduce.paper.printed.cells import describe_trainings
from transduce.paper.record import add_record, collect_records, distribute_records, read_records
from transduce.paper.trials import (
    Budget,
    Trial,
    has_measured_weights,
    operations_a_step,
    read_trial,
    run_trial,
    shared_store,
)
from transduce.recipe import from_values
from transduce.settings import merged
from transduce.storage.locks import exclusive_lock
from transduce.trainer.train import TrainOptions
from transduce.trainer.trainer import TrainResult
from transduce.training import DivergedError

CPU = TrainOptions("cpu", 1)


@pytest.fixture
def trial(tiny):
    return Trial("row", tiny.recipe(TRANSFORMER, {"average": None}, "row"), tiny.corpus_named("test"))


def test_each_budget_is_measured_where_it_is_reached(trial, tmp_path):
    found = run_trial(trial, tmp_path, [Budget("few", 3), Budget("more", 6)], CPU, lambda line: None)
    assert [each.step for each in found.values()] == [3, 6]
    assert found["few"].tokens < found["more"].tokens
    assert found["few"].perplexity != found["more"].perplexity
    alone = run_trial(trial._replace(name="alone"), tmp_path, [Budget("more", 6)], CPU, lambda line: None)["more"]
    assert (alone.perplexity, alone.bleu, alone.tokens) == (
        found["more"].perplexity,
        found["more"].bleu,
        found["more"].tokens,
    )
    assert alone.operations == pytest.approx(2 * found["few"].operations)
    assert (tmp_path / "row" / "outputs-few.txt").read_text().count("\n") == 5


def test_trainings_are_counted_once_and_told_apart_by_what_made_them(trial, tmp_path):
    found = run_trial(trial, tmp_path, [Budget("few", 3), Budget("more", 6)], CPU, lambda line: None)
    hour = found["more"]._replace(seconds=7200.0)
    (line,) = describe_trainings([found["few"], hour])
    assert line.startswith("Trainings: 1, 2.0 hours together. ")
    (line,) = describe_trainings([hour, hour._replace(trial="other", program="0.0 at abc")])
    assert line.startswith("Trainings: 2, 4.0 hours together, of several programs or machines. ")
    assert "1 by 0.0 at abc, 1 thread of " in line
    assert not list(describe_trainings([]))


def test_what_was_found_is_not_looked_for_again(trial, tmp_path, monkeypatch):
    first = run_trial(trial, tmp_path, [Budget("few", 3)], CPU, lambda line: None)
    monkeypatch.setattr("transduce.paper.trials.run_training", lambda *arguments: pytest.fail("trained again"))
    assert run_trial(trial, tmp_path, [Budget("few", 3, minutes=9.0)], CPU, lambda line: None) == first


def test_a_row_that_another_process_trains_is_left_to_it(trial, tmp_path):
    said = []
    with exclusive_lock(tmp_path / "row", "training"):
        assert not run_trial(trial, tmp_path, [Budget("few", 3)], CPU, said.append)
    assert said[-1] == "another process trains row; run this command again when that process has ended"
    assert run_trial(trial, tmp_path, [Budget("few", 3)], CPU, said.append)["few"].step == 3


def test_a_larger_budget_goes_on_and_a_smaller_one_is_refused(trial, tmp_path):
    run_trial(trial, tmp_path, [Budget("few", 3)], CPU, lambda line: None)
    said = []
    more = run_trial(trial, tmp_path, [Budget("few", 5)], CPU, said.append)["few"]
    assert more.step == 5
    assert any(line == "going on after step 3" for line in said)
    with pytest.raises(ValueError, match=r"was trained for 5 steps, and few asks for 4"):
        run_trial(trial, tmp_path, [Budget("few", 4)], CPU, lambda line: None)


def test_another_recipe_is_no_answer_and_is_not_trained_over(trial, tmp_path):
    few = Budget("few", 2)
    found = run_trial(trial, tmp_path, [few], CPU, lambda line: None)["few"]
    assert read_trial(trial, tmp_path, few) == found
    assert read_trial(trial, tmp_path, Budget("few", 3)) is None
    other = trial._replace(
        recipe=from_values(merged(trial.recipe.as_dictionary(), {"model": {"dropout": 0.3}}), place="")
    )
    assert read_trial(other, tmp_path, few) is None
    with pytest.raises(ValueError, match="was trained with another recipe than `row` has now: move it away"):
        run_trial(other, tmp_path, [few], CPU, lambda line: None)
    assert read_trial(trial, tmp_path, few) == found


def test_what_was_trained_for_longer_is_not_called_shorter(trial, tmp_path, monkeypatch):
    longer = run_trial(trial, tmp_path, [Budget("time", None, 0.05)], CPU, lambda line: None)
    monkeypatch.setattr("transduce.paper.trials.SAVING", 0.0)
    with pytest.raises(ValueError, match=r"was trained for 0\.[0-9]+ minutes, and time asks for 0.001: give a larger"):
        run_trial(trial, tmp_path, [Budget("time", None, 0.001)], CPU, lambda line: None)
    assert run_trial(trial, tmp_path, [Budget("time", None, 0.05)], CPU, lambda line: None) == longer


@pytest.mark.parametrize(("seconds", "steps", "answers"), [(70, 100, True), (75, 100, False), (75, 2, True)])
def test_what_was_trained_for_too_long_and_not_measured_is_no_answer(
    trial, tmp_path, monkeypatch, seconds, steps, answers
):
    """A training ends with a step and a checkpoint, and so a little late."""
    ended = TrainResult(steps, 1, seconds, "its time is over", Weights(kind="last", steps=(steps,)))
    monkeypatch.setattr("transduce.paper.trials.run_training", lambda *arguments: ended)
    monkeypatch.setattr("transduce.paper.trials._measure", Mock(side_effect=KeyError("measured")))
    with pytest.raises(
        KeyError if answers else ValueError, match=r"measured|was trained for 1\.2 minutes, and time asks for 1: give"
    ):
        run_trial(trial, tmp_path, [Budget("time", None, 1.0)], CPU, lambda line: None)


def test_the_corpus_is_not_made_anew_under_trainings_that_have_begun(trial, tmp_path):
    run_trial(trial, tmp_path, [Budget("few", 1)], CPU, lambda line: None)
    shared_store(trial.recipe, tmp_path, lambda line: None)
    changes = {"subwords": {"size": 300}}
    other = from_values(merged(trial.recipe.as_dictionary(), changes), place="")
    with pytest.raises(ValueError, match="a run has begun on that"):
        shared_store(other, tmp_path, lambda line: None)


def test_a_trial_that_diverges_keeps_no_other_from_being_trained(trial, tmp_path, monkeypatch):
    def diverged(*arguments):
        raise DivergedError("the loss is no number")

    monkeypatch.setattr("transduce.paper.trials.run_training", diverged)
    said = []
    assert run_trial(trial, tmp_path, [Budget("few", 1), Budget("more", 2)], CPU, said.append) == {}
    assert said == ["row has no result: the loss is no number"]


def test_a_recipe_of_another_version_is_no_answer(trial, tmp_path):
    run_trial(trial, tmp_path, [Budget("few", 1)], CPU, lambda line: None)
    path = tmp_path / "found.jsonl"
    path.write_text(path.read_text().replace("batch_tokens", "batch_words"))
    assert read_trial(trial, tmp_path, Budget("few", 1)) is None


def test_a_record_with_the_key_pieces_of_earlier_versions_is_read(trial, tmp_path):
    few = Budget("few", 1)
    first = run_trial(trial, tmp_path, [few], CPU, lambda line: None)["few"]
    path = tmp_path / "found.jsonl"
    assert "micro_batches" in path.read_text()
    path.write_text(path.read_text().replace("micro_batches", "pieces"))
    assert read_trial(trial, tmp_path, few) == first


def test_what_an_earlier_version_found_is_found_again(trial, tmp_path):
    first = run_trial(trial, tmp_path, [Budget("few", 2)], CPU, lambda line: None)["few"]
    path = tmp_path / "found.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "found": {"trial": "row"}}))
    assert (
        run_trial(trial, tmp_path, [Budget("few", 2)], CPU, lambda line: None)["few"]._replace(
            rate=first.rate, when=first.when
        )
        == first
    )


def test_a_folder_may_be_moved(trial, tmp_path):
    shared_store(trial.recipe, tmp_path / "old", lambda line: None)
    run_trial(trial, tmp_path / "old", [Budget("few", 2)], CPU, lambda line: None)
    (tmp_path / "old").rename(tmp_path / "new")
    assert run_trial(trial, tmp_path / "new", [Budget("few", 3)], CPU, lambda line: None)["few"].step == 3


def test_minutes_end_what_steps_would_not(trial, tmp_path):
    bounds = [Budget("arithmetic", 10**6, 0.001), Budget("time", None, 0.001)]
    found = run_trial(trial, tmp_path, bounds, CPU, lambda line: None)
    assert not found["arithmetic"].is_complete
    assert found["time"].step == found["arithmetic"].step < 10**6


def test_what_else_is_asked_of_a_trial_is_measured_with_it_and_kept(trial, tmp_path):
    few = Budget("few", 2)
    first = run_trial(trial, tmp_path, [few], CPU, lambda line: None)["few"]
    asked = trial._replace(measures={"lines": lambda model, outputs: [model.config.model.kind, len(outputs)]})
    assert read_trial(asked, tmp_path, few) == first  # which does not answer it
    found = run_trial(asked, tmp_path, [Budget("few", 2, 1e-9)], TrainOptions("cpu", 2), lambda line: None)["few"]
    assert found == first._replace(measures={"lines": ["transformer", 5]})  # made by whom it was made before
    assert read_trial(asked, tmp_path, few) == found
    again, said = trial._replace(measures={**asked.measures, "new": lambda model, outputs: 1}), []
    (tmp_path / "row").rename(tmp_path / "away")  # without the weights, what is known has to do
    assert run_trial(again, tmp_path, [few], CPU, said.append)["few"] == found
    assert said[0] == "row: not measured, since the weights are not here: new"


def test_of_several_results_the_latest_counts(trial, tmp_path):
    few = Budget("few", 2)
    first = run_trial(trial, tmp_path, [few], CPU, lambda line: None)["few"]
    (record,) = read_records(tmp_path, "row")
    for bleu, when in ((1.0, "2000-01-01T00:00:00+00:00"), (99.0, "2999-01-01T00:00:00+00:00")):
        add_record(tmp_path, record._replace(result={**record.result, "bleu": bleu, "when": when}))
        latest = read_trial(trial, tmp_path, few).bleu
        assert latest == (first.bleu if when < first.when else 99.0)
    assert first.environment["precision"] == "float32"
    assert first.environment["threads"] == 1


def test_weights_are_known_by_what_they_are(trial, tmp_path):
    found = run_trial(trial, tmp_path, [Budget("few", 2)], CPU, lambda line: None)["few"]
    assert has_measured_weights(trial, tmp_path, found)
    assert not has_measured_weights(trial, tmp_path, found._replace(weights="others"))
    assert not has_measured_weights(trial._replace(name="no row"), tmp_path, found)
    run_trial(trial, tmp_path, [Budget("few", 3)], CPU, lambda line: None)
    assert not has_measured_weights(trial, tmp_path, found)


def test_what_was_found_elsewhere_is_believed_and_not_overwritten(trial, tmp_path, monkeypatch):
    there, here, out = tmp_path / "there", tmp_path / "here", tmp_path / "out"
    few = Budget("few", 2)
    found = run_trial(trial, there / "table-small", [few], CPU, lambda line: None)["few"]
    other = trial._replace(
        recipe=from_values(merged(trial.recipe.as_dictionary(), {"model": {"dropout": 0.3}}), place="")
    )
    mine = run_trial(other, here / "table-small", [few], CPU, lambda line: None)["few"]
    collect_records(out, there)
    distribute_records(out, here)
    collect_records(out, here)
    monkeypatch.setattr("transduce.paper.trials.run_training", lambda *arguments: pytest.fail("trained again"))
    for work in (here, tmp_path / "new"):
        distribute_records(out, work)
        assert run_trial(trial, work / "table-small", [few], CPU, lambda line: None)["few"] == found
        assert run_trial(other, work / "table-small", [few], CPU, lambda line: None)["few"] == mine
    assert (out / "trainings.jsonl").read_text().count("\n") == 2


def test_what_was_found_holds_wherever_the_corpora_lie(trial, tmp_path):
    few = Budget("few", 2)
    found = run_trial(trial, tmp_path / "here", [few], CPU, lambda line: None)["few"]
    assert str(tmp_path) not in (tmp_path / "here" / "found.jsonl").read_text()
    values = trial.recipe.as_dictionary()
    elsewhere = {"source": "/elsewhere/test.en", "target": "/elsewhere/test.de"}
    moved = trial._replace(
        recipe=from_values({**values, "data": {**values["data"], "test": {"test": elsewhere}}}, place="")
    )
    assert read_trial(moved, tmp_path / "here", few) == found
    other = from_values(
        {**values, "data": {**values["data"], "test": {"test": {**elsewhere, "target": "x.de"}}}}, place=""
    )
    assert read_trial(trial._replace(recipe=other), tmp_path / "here", few) is None


def test_trials_share_one_store(trial, tmp_path):
    shared_store(trial.recipe, tmp_path, lambda line: None)
    said = []
    run_trial(trial, tmp_path, [Budget("few", 1)], CPU, said.append)
    assert not [line for line in said if line.startswith("learning subwords")]
    assert (tmp_path / "row" / "training" / "store").is_symlink()
    assert json.loads((tmp_path / "found.jsonl").read_text())["trial"] == "row"


def test_arithmetic_of_a_step_is_that_of_its_words(trial, tmp_path):
    prepared = shared_store(trial.recipe, tmp_path, lambda line: None)
    from transduce.model import Vocabulary
    from transduce.model.flops import flops

    store, pairs = prepared.train, 300
    words = [int(lengths.sum()) + pairs for lengths in (store.source_lengths, store.target_lengths)]
    vocabulary = Vocabulary(source=prepared.source.size, target=prepared.target.size)
    read, written = flops(trial.recipe.model, vocabulary, round(words[1] / pairs))
    steps = -(-sum(words) // 2 // 512)  # at least so many
    found = operations_a_step(trial.recipe, prepared)
    assert found <= 3 * (read * words[0] + written * words[1]) / steps
    assert found >= 3 * (read * words[0] + written * words[1]) / (2 * steps)


def test_the_confidence_interval_of_a_mean():
    assert confidence_interval([3.0]) == (3.0, None)
    mean, within = confidence_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert within == pytest.approx(4.303 / 3**0.5)
