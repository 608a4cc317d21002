"""A dry run: what it computes from a pace, and that it measures a training and keeps nothing of it."""

import re

import pytest

from micro_run import forked
from transduce.corpus.batch_ramp import BatchRamp
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run.dry_run import Pace, dry_run, whole_steps
from transduce.run.fine_tuning import load_training_recipe
from transduce.run.train import TrainOptions
from transduce.training.training_settings import Training

RAMP = BatchRamp(start=100, end=400, steps=30)


@pytest.mark.parametrize("batch_tokens", [100, RAMP])
@pytest.mark.parametrize("validate_every", [None, 1, 7])
def test_seconds_are_those_of_steps_and_validations(batch_tokens, validate_every):
    training = Training(batch_tokens=batch_tokens, validate_every=validate_every)
    seconds = 0.0
    for step in range(1, 100):
        seconds += 2.0 if batch_tokens == 100 else 2.0 * RAMP.parts_of(step) / 4
        if validate_every and step % validate_every == 0:
            seconds += 5.0
        assert Pace(2.0, 5.0).seconds(training, step) == pytest.approx(seconds)
        assert Pace(2.0, 5.0).steps_within(training, seconds + 1e-6) == step
        assert Pace(2.0, 5.0).steps_within(training, seconds - 1e-6) == step - 1


def test_a_ramp_takes_less_work():
    assert whole_steps(Training(batch_tokens=RAMP), 50) == sum(map(RAMP.parts_of, range(1, 51))) / 4


def test_long_ramps_and_endless_minutes_take_no_time():
    slow = Training(batch_tokens=BatchRamp(start=1, end=2**20, steps=2**50))
    assert 0 < whole_steps(slow, 2**52) < 2**52
    assert Pace(1.0, 0.0).steps_within(slow, 1e300) >= 2**53 - 1


def measured(micro, out, *changes):
    recipe = load(micro / "recipe.yaml", ["training.precision=float32", *changes])
    return dry_run(recipe, out, TrainOptions("cpu", threads=1))


def test_it_measures_the_training_of_the_recipe(micro, tmp_path, monkeypatch):
    monkeypatch.setattr("transduce.run.dry_run.MIN_SECONDS", 0.0)
    result = measured(micro, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert result.steps == 12
    assert result.epochs == pytest.approx(12 / result.steps_per_epoch)
    assert result.tokens_per_second * result.pace.step == pytest.approx(
        result.tokens_per_epoch / result.steps_per_epoch
    )
    assert result.pace.validation > 0
    assert result.seconds == pytest.approx(12 * result.pace.step + 4 * result.pace.validation)
    assert result.checkpoints == 2
    # Weights, both moments of Adam and its step, in float32, with padding to cache lines.
    assert 12 * result.parameters < result.checkpoint_bytes < 14 * result.parameters


def test_minutes_and_patience_bound_the_steps(micro, tmp_path, monkeypatch):
    monkeypatch.setattr("transduce.run.dry_run.MIN_SECONDS", 0.0)
    by_minutes = measured(micro, tmp_path / "run", "training.steps=null", "training.minutes=1")
    assert by_minutes.steps > 12
    assert by_minutes.seconds + by_minutes.pace.step + by_minutes.pace.validation > 59
    assert by_minutes.seconds <= 60
    endless = measured(micro, tmp_path / "run", "training.steps=null", "training.patience=3")
    assert endless.steps is endless.epochs is endless.seconds is None


def test_the_command_prints_a_table_and_leaves_nothing(micro, tmp_path):
    ended = forked("train", micro / "recipe.yaml", "--out", tmp_path / "run", "--dry-run")
    assert ended.code == 0, ended.error
    assert re.search(r"^the training +12 steps, [0-9.]+ epochs, at most$", ended.out, flags=re.MULTILINE)
    assert re.search(r"^a step +\S+ s, [0-9,]+ target tokens a second$", ended.out, flags=re.MULTILINE)
    assert not list(tmp_path.iterdir())


def test_a_fine_tuning_that_has_begun_is_measured_with_its_first_model(micro, trained, tmp_path, monkeypatch):
    """Without `--from` the run knows its first model; its checkpoints stay as they are."""
    monkeypatch.setattr("transduce.run.dry_run.MIN_SECONDS", 0.0)
    out, options = tmp_path / "run", ("--set", "training.steps=4")
    begun = forked("train", micro / "recipe.yaml", "--out", out, "--from", trained, "--grow-vocabulary", "5", *options)
    assert begun.code == 0, begun.error
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    recipe = load_training_recipe(micro / "recipe.yaml", ["training.steps=4"], out, start_from=None, restart=False)
    result = dry_run(recipe, out, TrainOptions("cpu", threads=1))
    model = Model.read(out)
    assert result.parameters == sum(parameter.numel() for parameter in model.module.parameters())
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_faults_of_the_recipe_end_it(micro, tmp_path):
    wrong = forked(
        "train", micro / "recipe.yaml", "--out", tmp_path / "run", "--dry-run", "--set", "data.train=none.tsv"
    )
    assert wrong.code == 2
    refused = forked("train", micro / "recipe.yaml", "--out", tmp_path / "run", "--dry-run", WORLD_SIZE="2")
    assert refused.code == 2
    assert "--dry-run measures one process" in refused.error
