"""A finished training publishes the best of its average, its last and its best validated weights."""

import json
import math

import pytest
import torch
from safetensors.torch import load_file

from transduce.evaluation.validation import Validation, ValidationResult, ValidationScore
from transduce.model_directory.config import Weights
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run.checkpoints import Checkpoints
from transduce.run.publishing import Candidate, choose, comparison
from transduce.run.train import run_training

AVERAGED, LAST, BEST = (
    Weights(kind="averaged", steps=(4, 7)),
    Weights(kind="last", steps=(7,)),
    Weights(kind="best", steps=(3,)),
)
SETTINGS = ["training.steps=7", "training.validate_every=3", "training.save_every=4", "training.average=2"]


@pytest.fixture
def trained_with(micro, tmp_path, monkeypatch, log_lines):
    """Trains with scripted validations: after steps 3 and 6, of the last weights and of the average."""

    def trained(*results, changes=()):
        scripted = list(results)

        def validated(validation, model, translate=True):
            result = scripted.pop(0)
            if isinstance(result, Exception):
                raise result
            loss, bleu = result
            score = ValidationScore("bleu", bleu, "signature")
            return ValidationResult(loss, 2.0**loss, 0.5, score, ["", "", ""])

        monkeypatch.setattr(Validation, "__call__", validated)
        result = run_training(load(micro / "recipe.yaml", [*SETTINGS, *changes]), tmp_path)
        assert not scripted, "fewer validations than expected"
        assert Model.read(tmp_path).config.weights == result.weights
        return result.weights

    trained.lines = log_lines
    return trained


@pytest.mark.parametrize(
    ("last", "average", "chosen"),
    [(20.0, 31.0, AVERAGED), (32.0, 31.0, LAST), (29.0, 28.0, BEST), (30.0, 30.0, AVERAGED), (31.0, 31.0, AVERAGED)],
)
def test_the_highest_score_is_published(trained_with, tmp_path, last, average, chosen):
    """The losses would choose others."""
    assert trained_with((2.0, 30.0), (1.9, 25.0), (1.0, last), (3.0, average)) == chosen
    assert (
        f"step 7: publishes the {'average' if chosen is AVERAGED else chosen.kind} of step "
        f"{'4 to 7' if chosen is AVERAGED else chosen.steps[0]}, the best by BLEU: "
        f"the average of step 4 to 7 {average:.2f}, the best of step 3 30.00, the last of step 7 {last:.2f}"
    ) in trained_with.lines
    published, checkpoints = load_file(tmp_path / "model.safetensors"), Checkpoints(tmp_path / "training")
    if chosen is LAST:
        assert all(torch.equal(weight, checkpoints.weights(7)[name]) for name, weight in published.items())
    card = (tmp_path / "README.md").read_text()
    assert f"BLEU {max(last, average, 30.0):.2f}" in card


def test_by_loss_the_lowest_is_published(trained_with):
    """The report of a run of 400 steps: its average had loss 5.59, its best 4.63."""
    weights = trained_with((5.0, 1.0), (4.63, 1.0), (4.7, 9.0), (5.59, 9.0), changes=["training.validate_by=loss"])
    assert weights == Weights(kind="best", steps=(6,))
    assert trained_with.lines[-1].endswith(
        "publishes the best of step 6, the best by loss: the average of step 4 to 7 5.590, the best of step 6 4.630, "
        "the last of step 7 4.700"
    )


def test_last_weights_that_were_validated_are_not_measured_again(trained_with):
    weights = trained_with((2.0, 30.0), (1.9, 25.0), (1.8, 29.0), changes=["training.steps=6"])
    assert weights == Weights(kind="best", steps=(3,))


def test_a_finished_run_is_not_compared_again(trained_with, tmp_path):
    chosen = trained_with((2.0, 30.0), (1.9, 25.0), (1.0, 29.0), (3.0, 28.0))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert trained_with() == chosen == BEST
    assert trained_with.lines[-1] == f"{tmp_path} is finished: 7 steps are done"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("last", "average", "chosen"), [(20.0, 31.0, AVERAGED), (32.0, 31.0, LAST), (29.0, 28.0, BEST)]
)
def test_a_run_that_dies_before_the_choice_is_recorded_chooses_the_same(trained_with, tmp_path, last, average, chosen):
    trained_with((2.0, 30.0), (1.9, 25.0), (1.0, last), (3.0, average))
    record = tmp_path / "training" / "selection.json"
    read = json.loads(record.read_text())
    assert (read["step"], read["weights"], read["score"]) == (7, chosen.as_dictionary(), max(last, average, 30.0))
    record.unlink()
    again = () if chosen is AVERAGED else ((1.0, last), (3.0, average))
    assert trained_with(*again) == chosen


def test_more_steps_are_compared_anew(trained_with):
    trained_with((2.0, 30.0), (1.9, 25.0), (1.0, 29.0), (3.0, 28.0))
    weights = trained_with((1.0, 26.0), (3.0, 33.0), changes=["training.steps=8"])
    assert weights == Weights(kind="averaged", steps=(4, 8))


def test_a_training_that_goes_on_replaces_its_weights_by_better_ones_only(trained_with, tmp_path):
    trained_with((2.0, 30.0), (1.9, 25.0), (1.0, 29.0), (3.0, 33.0))
    first = (tmp_path / "model.safetensors").read_bytes()
    # Better than the best that was validated, at step 3, and worse than the average that was published.
    weights = trained_with((1.0, 32.0), (3.0, 31.0), changes=["training.steps=9"])
    assert weights == AVERAGED
    assert (tmp_path / "model.safetensors").read_bytes() == first
    assert trained_with((1.0, 34.0), (3.0, 31.0), changes=["training.steps=12"]) == Weights(kind="best", steps=(12,))


def test_an_average_alone_is_replaced_by_better_weights_only(trained_with, tmp_path):
    changes = ["training.steps=2", "training.save_every=1", "training.validate_every=3"]
    assert trained_with((3.0, 33.0), changes=changes) == Weights(kind="averaged", steps=(1, 2))
    first = (tmp_path / "model.safetensors").read_bytes()
    trained_with((2.0, 20.0), (1.9, 20.5), (1.8, 21.0), changes=["training.steps=4", *changes[1:]])
    assert (tmp_path / "model.safetensors").read_bytes() == first


def test_scores_on_another_corpus_are_not_compared(trained_with, micro):
    trained_with((2.0, 30.0), (1.9, 25.0), (1.0, 29.0), (3.0, 33.0))
    harder = f"data.validation={{source: {micro / 'test.en'}, target: {micro / 'test.de'}}}"
    weights = trained_with((1.0, 12.0), (3.0, 11.0), changes=["training.steps=9", harder])
    assert weights == Weights(kind="best", steps=(9,))


@pytest.mark.parametrize(("last", "chosen"), [(31.0, LAST), (29.0, BEST)])
def test_without_an_average_the_last_weights_are_measured_too(trained_with, last, chosen):
    change = ["training.average=null"]
    assert trained_with((2.0, 30.0), (1.9, 25.0), (1.0, last), changes=change) == chosen
    assert trained_with(changes=change) == chosen


def test_an_average_that_cannot_be_measured_is_not_published(trained_with):
    refused = torch.OutOfMemoryError("refused")
    assert trained_with((2.0, 30.0), (1.9, 25.0), (1.0, 29.0), refused) == BEST
    assert "the average of step 4 to 7 not measured" in trained_with.lines[-1]


def test_without_scores_the_first_is_chosen():
    candidates = [Candidate(AVERAGED, math.nan), Candidate(LAST, math.nan)]
    assert choose(candidates) is candidates[0]
    assert choose([*candidates, Candidate(BEST, -7.0)]).which == BEST
    assert "the last of step 7 not measured" in comparison(candidates, candidates[0], "f1")
