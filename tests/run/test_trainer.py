"""When a training ends, and which weights it publishes."""

import gc
import itertools
import json
import math
import re
import shutil
import weakref
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import transduce.run.publishing
from transduce.corpus.planner import Planner
from transduce.corpus.store.preparation import open_store
from transduce.evaluation.validation import Validation, ValidationResult, ValidationScore
from transduce.model.cross_entropy import Smoothing
from transduce.model_directory.config import Weights
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run.checkpoints import Checkpoints
from transduce.run.train import TrainOptions, run_training
from transduce.run.trainer import Trainer
from transduce.storage.checksums import checksums_of_files
from transduce.training.objective import RDrop
from transduce.training.precision import Precision


@pytest.fixture
def recipe(micro):
    """The micro recipe with changes to its training."""

    def changed(*more, **changes):
        return load(
            micro / "recipe.yaml", [*(f"training.{key}={json.dumps(value)}" for key, value in changes.items()), *more]
        )

    return changed


@pytest.fixture
def losses(monkeypatch):
    """Losses or results that the validations return in turn, instead of their own."""
    scripted = []

    def validated(validation, model, translate=True):
        loss = scripted.pop(0)
        return (
            loss if isinstance(loss, ValidationResult) else ValidationResult(loss, 2.0**loss, 0.5, None, ["", "", ""])
        )

    monkeypatch.setattr(Validation, "__call__", validated)
    return scripted


def measured(loss, bleu):
    return ValidationResult(loss, 2.0**loss, 0.5, ValidationScore("bleu", bleu, "signature"), ["", "", ""])


@pytest.fixture
def clock(monkeypatch):
    """A clock for the training, which advances by `look` seconds at each reading; a start reads nothing."""
    time = SimpleNamespace(now=1e6, look=60.0)

    def work_time():
        begun = time.now

        def seconds():
            time.now += time.look
            return time.now - begun

        return SimpleNamespace(seconds=seconds, close=lambda: None)

    monkeypatch.setattr("transduce.run.training_state.WorkTime", work_time)
    return time


def weights_after(out, step):
    return Checkpoints(out / "training", keep=1).weights(step)


def are_equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_patience_counts_validations_without_a_better_score(recipe, tmp_path, losses):
    losses += [5.0, 6.0, 4.0, 4.5, 4.0, 3.9]
    settings = {"validate_every": 1, "patience": 2, "validate_by": "loss", "save_every": 1, "keep": 9, "average": None}
    result = run_training(recipe(**settings), tmp_path)
    assert (result.step, result.reason) == (5, "no better validation since step 3")
    assert result.weights == Weights(kind="best", steps=(3,))
    assert are_equal(load_file(tmp_path / "model.safetensors"), weights_after(tmp_path, 3))
    assert Model.read(tmp_path).config.weights == result.weights


def test_patience_counts_over_a_stop(recipe, tmp_path, losses):
    losses += [5.0, 4.0, 4.5, 4.0]
    settings = {"validate_every": 1, "patience": 2, "validate_by": "loss", "save_every": 1, "average": None}
    run_training(recipe(steps=3, **settings), tmp_path)
    result = run_training(recipe(steps=9, **settings), tmp_path)
    assert (result.step, result.weights.steps) == (4, (2,))


def test_a_loss_of_nan_is_never_the_best(recipe, tmp_path, losses):
    losses += [math.nan, 5.0, math.nan, 4.0]
    result = run_training(recipe(validate_every=3, validate_by="loss", average=None), tmp_path)
    assert result.weights == Weights(kind="best", steps=(12,))


def test_only_better_scores_are_published(recipe, tmp_path, losses, monkeypatch):
    losses += [5.0, 6.0, 4.0, 4.0]
    published = []
    monkeypatch.setattr(
        "transduce.run.publishing.write_model",
        lambda out, config, *rest: published.append(config.weights.steps),
    )
    settings = {"validate_every": 3, "validate_by": "loss", "average": None, "keep": 9}
    with pytest.raises(ValueError, match="not a model directory"):
        run_training(recipe(**settings), tmp_path)  # because `publish` wrote nothing
    assert published == [(3,), (9,)]


def test_a_higher_bleu_is_better(recipe, tmp_path, losses):
    """The loss falls at every validation and does not count."""
    losses += [measured(9.0 - step, bleu) for step, bleu in enumerate([3.0, 5.0, 4.0, 6.0, 5.9, 5.5, 2.0, 7.0])]
    settings = {"validate_every": 1, "patience": 3, "average": None, "save_every": 1, "keep": 9}
    result = run_training(recipe(**settings), tmp_path)
    assert (result.step, result.reason) == (7, "no better validation since step 4")
    assert result.weights == Weights(kind="best", steps=(4,))
    assert are_equal(load_file(tmp_path / "model.safetensors"), weights_after(tmp_path, 4))


def test_of_equal_bleu_the_lower_loss_is_better(recipe, tmp_path, losses):
    """BLEU is 0 at every validation, as of lines with fewer than four words; patience sees the loss then."""
    losses += [measured(loss, 0.0) for loss in (5.0, 4.0, 3.0, 3.5, 3.2, 3.0)]
    settings = {"validate_every": 1, "patience": 3, "average": None, "save_every": 1, "keep": 9}
    result = run_training(recipe(**settings), tmp_path)
    assert (result.step, result.reason) == (6, "no better validation since step 3")
    assert are_equal(load_file(tmp_path / "model.safetensors"), weights_after(tmp_path, 3))


def test_the_average_is_of_the_last_checkpoints(trained):
    first, second = (weights_after(trained, step) for step in (8, 12))
    published = load_file(trained / "model.safetensors")
    assert published.keys() == first.keys()
    for name, weight in published.items():
        assert torch.equal(weight, ((first[name].double() + second[name].double()) / 2).float())


@pytest.mark.parametrize(
    ("keep", "average", "averaged", "steps"), [(5, 2, (6, 8), [2, 4, 6, 8]), (1, 3, (4, 6, 8), [4, 6, 8])]
)
def test_enough_checkpoints_are_kept_to_average(recipe, tmp_path, keep, average, averaged, steps):
    settings = {"steps": 8, "save_every": 2, "keep": keep, "average": average, "validate_every": None}
    assert recipe(**settings).training.checkpoints_to_keep == max(keep, average)
    result = run_training(recipe(**settings), tmp_path)
    assert result.weights == Weights(kind="averaged", steps=averaged)
    assert Checkpoints(tmp_path / "training", keep=1).steps() == steps


def test_settings_of_the_recipe_reach_the_parts_of_the_training(recipe, trained, tmp_path):
    settings = {
        "seed": 7,
        "batch_tokens": 300,
        "micro_batches": 3,
        "precision": "bfloat16",
        "label_smoothing": 0.2,
        "label_smoothing_over": "others",
        "regulariser": {"kind": "r_drop", "share": 0.5},
        "optimiser.betas": [0.5, 0.6],
        "keep": 3,
        "average": 4,
        "save_every": 6,
    }
    chosen = recipe("data.target_language=zh", "decoding.beam=3", "training.minutes=90", **settings)
    prepared = open_store(trained / "training" / "store")
    run = Trainer(chosen, tmp_path, prepared, torch.device("cpu"))
    torch.manual_seed(7)
    expected = chosen.model.build(run.vocabulary)
    assert all(map(torch.equal, run.model.parameters(), expected.parameters()))
    validation = run.validation
    assert run.objective.smoothing == validation.smoothing == Smoothing(epsilon=0.2, over="others")
    assert run.objective.regulariser == RDrop(share=0.5)
    assert "tok:zh" in validation(run.model).score.signature
    assert validation.decoding == chosen.decoding != recipe().decoding
    run.optimiser.gradient.fill_(1.0)
    run.optimiser.update(0.0, torch.tensor(True))
    state = run.optimiser.state()
    assert [float(state[name].max()) for name in ("exp_avg", "exp_avg_sq")] == pytest.approx([0.5, 0.4])
    assert run.precision.name == "bfloat16"
    planner = Planner(prepared.train, batch_tokens=300, micro_batches=3, seed=7)
    for expected_step, planned in zip(itertools.islice(planner.steps(), 5), run.planner.steps()):
        assert len(planned.micro_batches) == 3
        for micro_batch, expected_batch in zip(planned.micro_batches, expected_step.micro_batches, strict=True):
            assert all(map(np.array_equal, micro_batch, expected_batch))
    assert (run.published.checkpoints.keep, run.published.checkpoints.every, run.metrics_log.minutes) == (4, 6, 90)


def test_minutes_over_all_starts(recipe, tmp_path, clock):
    """A step reads the clock once; time between two starts does not count."""
    changes = {"minutes": 30, "steps": None, "validate_every": None, "save_every": 99, "average": None}
    straight = run_training(recipe(**changes), tmp_path / "straight")
    out = tmp_path / "stopped"
    for steps in (3, 8):
        assert run_training(recipe(**{**changes, "steps": steps}), out).seconds == 60 * steps
        clock.now += 60_000
    resumed = run_training(recipe(**changes), out)
    for result in (straight, resumed):
        assert (result.step, result.seconds, result.reason) == (30, 1800, "30 minutes are over, after 30 steps")


def test_saving_by_the_clock(recipe, tmp_path, clock):
    """A step takes a minute. The interval begins again at each checkpoint and at each start."""
    changes = {"save_every": "5 min", "keep": 99, "validate_every": None}
    for steps, saved in ((7, [5, 7]), (24, [5, 12, 17, 22, 24])):
        run_training(recipe(steps=steps, **changes), tmp_path)
        assert Checkpoints(tmp_path / "training", keep=1).steps() == saved


def test_a_checkpoint_by_the_clock_stays_where_the_training_stops_after_the_same_step(recipe, tmp_path, clock):
    """The validation of step 5 changes the state after its checkpoint, so that the end saves step 5 again."""
    changes = {"save_every": "5 min", "keep": 99, "validate_every": 5, "validate_by": "loss", "average": None}
    for steps in (5, 7, 9):
        run_training(recipe(steps=steps, **changes), tmp_path)
    assert Checkpoints(tmp_path / "training").steps() == [5, 9]


@pytest.mark.parametrize(
    "validation", ["data.validation=null", "training.validate_every=null", "training.validate_every=50"]
)
def test_without_a_validation_the_last_weights_are_published(recipe, tmp_path, validation):
    result = run_training(recipe(validation, average=None, steps=6, save_every=4), tmp_path)
    assert result.weights == Model.read(tmp_path).config.weights == Weights(kind="last", steps=(6,))
    assert are_equal(load_file(tmp_path / "model.safetensors"), weights_after(tmp_path, 6))


BEST = Weights(kind="best", steps=(4,))


@pytest.mark.parametrize("changes", [["training.validate_by=loss"], ["data.validation=null"], []])
def test_the_best_weights_of_a_finished_run_are_not_replaced(recipe, tmp_path, monkeypatch, changes, log_lines):
    def publish_as_best(self, state, optimiser, measure, log):
        self.publish(BEST, optimiser.weights())
        return BEST

    monkeypatch.setattr("transduce.run.publishing.PublishedModel.publish_final", publish_as_best)
    run_training(recipe(average=None, steps=6), tmp_path)
    monkeypatch.undo()
    before = (tmp_path / "model.safetensors").read_bytes()
    result = run_training(recipe(*changes, average=None, steps=6), tmp_path)
    assert (result.weights, (tmp_path / "model.safetensors").read_bytes()) == (BEST, before)
    assert any("is finished" in line for line in log_lines)


def test_a_run_that_stops_validating_publishes_its_last_weights(recipe, tmp_path):
    first = run_training(recipe(average=None, steps=4, validate_every=2, save_every=2), tmp_path)
    assert first.weights.kind == "best"
    changes = ["training.validate_every=null", "training.steps=8"]
    result = run_training(recipe(*changes, average=None, save_every=2), tmp_path)
    assert result.weights == Model.read(tmp_path).config.weights == Weights(kind="last", steps=(8,))


def test_a_resumed_run_keeps_the_loss_scale_of_float16(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(Precision, "growth_interval", 3)
    changes = {"precision": "float16", "validate_every": None, "average": None, "save_every": 1}
    for steps, scale in ((2, [2**15, 2]), (4, [2**16, 4])):
        run_training(recipe(steps=steps, **changes), tmp_path)
        state = json.loads((tmp_path / "training" / f"step-{steps:08d}" / "state.json").read_text())
        assert state["loss_scale"] == scale


def test_another_precision_begins_with_its_own_loss_scale(recipe, tmp_path, log_lines):
    changes = {"validate_every": None, "average": None, "save_every": 1}
    run_training(recipe(steps=2, precision="float32", **changes), tmp_path)
    log_lines.clear()
    accepting = TrainOptions(accept_changes=True)
    schedule = {"kind": "constant", "warmup": 1, "peak": 1e-4}
    changed = recipe(steps=4, precision="float16", schedule=schedule, **changes)
    run_training(changed, tmp_path, accepting)
    state = json.loads((tmp_path / "training" / "step-00000004" / "state.json").read_text())
    assert state["loss_scale"] == [2**15, 2]
    said = next(line for line in log_lines if line.startswith("the recipe changes: "))
    assert '`training.precision` was "float32" and is "float16"' in said
    assert "`training.schedule.peak`" in said


@pytest.mark.parametrize("is_fast", [True, False])
def test_slow_bfloat16_is_named(recipe, tmp_path, monkeypatch, is_fast, log_lines):
    monkeypatch.setattr("transduce.run.build.has_fast_bfloat16", lambda device: is_fast)
    changes = {"validate_every": None, "average": None}
    run_training(recipe(steps=1, precision="bfloat16", **changes), tmp_path)
    slow = ", which is slower here than float32"
    assert any(f"parameters on cpu in bfloat16{'' if is_fast else slow}; " in line for line in log_lines)


def test_a_recipe_too_large_to_be_read_again_is_refused(recipe, tmp_path):
    loaded = recipe()
    large = loaded.model_copy(update={"data": loaded.data.model_copy(update={"train": loaded.data.train * 1200})})
    with pytest.raises(ValueError, match="name fewer corpora"):
        run_training(large, tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.yaml").exists()


def test_patience_requires_validations(recipe):
    with pytest.raises(ValueError, match="`patience` counts validations"):
        recipe(patience=3, validate_every=None)


def test_patience_requires_a_validation_corpus(recipe):
    with pytest.raises(ValueError, match=r"`training.patience`.*`data.validation`"):
        recipe("data.validation=null", patience=3)


def test_two_vocabularies_require_separate_embeddings(recipe):
    with pytest.raises(ValueError, match=r"two vocabularies: set `model.embeddings: separate`"):
        recipe("subwords.shared=false")
    assert not recipe("subwords.shared=false", "model.embeddings=separate").subwords.shared


def test_a_missing_validation_corpus_is_reported_before_the_preparation(recipe, tmp_path, log_lines):
    with pytest.raises(OSError, match="nowhere"):
        run_training(recipe("data.validation={source: nowhere.en, target: nowhere.de}"), tmp_path)
    assert log_lines == []


def test_a_finished_training_is_freed_without_garbage_collection(recipe, tmp_path, monkeypatch):
    """A reference cycle would keep a model, its gradient and two moments in memory."""
    runs = []

    def watched(self, *arguments, begin=Trainer.__init__):
        runs.append(weakref.ref(self))
        begin(self, *arguments)

    monkeypatch.setattr(Trainer, "__init__", watched)
    gc.disable()
    try:
        run_training(recipe(steps=1, average=None), tmp_path)
        assert [run() for run in runs] == [None]
    finally:
        gc.enable()


def test_the_best_score_stays_where_the_validation_corpus_has_moved(micro, recipe, tmp_path, losses, log_lines):
    settings = {"validate_every": 1, "validate_by": "loss", "save_every": 1, "average": None}
    for side in ("en", "de"):
        shutil.copy(micro / f"validation.{side}", tmp_path / f"moved.{side}")
    losses += [3.0, 4.0]
    run_training(recipe(steps=1, **settings), tmp_path / "run")
    moved = f"data.validation={{source: {tmp_path}/moved.en, target: {tmp_path}/moved.de}}"
    result = run_training(recipe(moved, steps=2, **settings), tmp_path / "run")
    assert result.weights == Weights(kind="best", steps=(1,))
    (tmp_path / "moved.en").write_text((tmp_path / "moved.en").read_text().replace("ant", "bee").replace("owl", "pig"))
    log_lines.clear()
    losses[:] = [5.0]
    result = run_training(recipe(moved, steps=3, **settings), tmp_path / "run")
    assert result.weights == Weights(kind="best", steps=(3,))
    assert any("the best score is forgotten" in line for line in log_lines)


def test_torchrun_restarts_do_not_repeat_a_restart(recipe, tmp_path, monkeypatch, log_lines):
    run_training(recipe(steps=4), tmp_path)
    run_training(recipe(steps=4), tmp_path, TrainOptions(restart=True))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    log_lines.clear()
    run_training(recipe(steps=6), tmp_path, TrainOptions(restart=True))
    assert "going on after step 4" in log_lines
    assert [path.name for path in tmp_path.glob("before-restart-*")] == ["before-restart-1"]


def test_a_resumed_run_does_not_need_the_model_of_from(recipe, trained, tmp_path, log_lines):
    begun = shutil.copytree(trained, tmp_path / "begun")
    tuned = ["data.max_length=9"]  # another selection of pairs, from which other subwords would be learned
    run_training(recipe(*tuned, steps=4, average=None), tmp_path / "run", TrainOptions(start_from=begun))
    shutil.rmtree(begun)
    log_lines.clear()
    assert run_training(recipe(*tuned, steps=6, average=None), tmp_path / "run").step == 6
    assert "going on after step 4" in log_lines


def test_a_published_average_stays_when_older_checkpoints_are_deleted(recipe, tmp_path):
    settings = {"steps": 6, "save_every": 2, "keep": 3, "average": 3}
    before = run_training(recipe(**settings), tmp_path).weights
    shutil.rmtree(tmp_path / "training" / "step-00000002")
    assert run_training(recipe(**settings), tmp_path).weights == before == Model.read(tmp_path).config.weights


def test_a_run_does_not_resume_with_other_subwords(recipe, tmp_path):
    run_training(recipe(steps=2, save_every=2), tmp_path)
    state = tmp_path / "training" / "step-00000002" / "state.json"
    values = json.loads(state.read_text())
    values["subwords"]["tokenizer.json"]["sha256"] = "of another"
    state.write_text(json.dumps(values))
    manifest = state.with_name("manifest.json")
    listed = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**listed, **checksums_of_files([state])}))
    with pytest.raises(ValueError, match=r"training data .* has changed"):
        run_training(recipe(steps=4, save_every=2), tmp_path)


def test_a_model_that_cannot_be_written_does_not_stop_a_training(recipe, tmp_path, monkeypatch, log_lines):
    publish, times = transduce.run.publishing.write_model, itertools.count(1)

    def refused(*arguments):
        if next(times) == 1:
            raise OSError("no space left")
        publish(*arguments)

    monkeypatch.setattr("transduce.run.publishing.write_model", refused)
    run_training(recipe(validate_every=None, average=None, save_every=4), tmp_path)
    failures = [line for line in log_lines if "could not" in line]
    assert failures == ["step 4: could not write the model: no space left; the earlier one stays"]
    assert Model.read(tmp_path).config.weights == Weights(kind="last", steps=(12,))


def test_a_best_model_that_could_not_be_written_is_not_the_best(recipe, tmp_path, losses, monkeypatch):
    """The best validation is the first, whose weights are lost."""
    losses += [3.0, 5.0, 6.0, 7.0]
    publish, times = transduce.run.publishing.write_model, itertools.count(1)

    def refused(*arguments):
        if next(times) == 1:
            raise OSError("no space left")
        publish(*arguments)

    monkeypatch.setattr("transduce.run.publishing.write_model", refused)
    result = run_training(recipe(validate_every=3, validate_by="loss", average=None), tmp_path)
    assert result.weights == Model.read(tmp_path).config.weights == Weights(kind="best", steps=(6,))


def test_a_training_begins_with_the_weights_of_another_model(recipe, trained, tmp_path):
    run_training(recipe(steps=1, average=None, **{"schedule.peak": 1e-30}), tmp_path, TrainOptions(start_from=trained))
    begun, base = weights_after(tmp_path, 1), load_file(trained / "model.safetensors")
    assert all(torch.allclose(begun[name], base[name], atol=1e-12) for name in base)
    difference = r"--from: that model does not fit the recipe: `model.d_model` is 24 in the model and 20 in the recipe"
    with pytest.raises(ValueError, match=difference):
        run_training(recipe("model.d_model=20"), tmp_path / "wide", TrainOptions(start_from=trained))


def test_a_training_begins_with_the_subwords_of_another_model(recipe, trained, tmp_path):
    (tmp_path / "other.en").write_text("quite other words zzz\n" * 30)
    (tmp_path / "other.de").write_text("ganz andere Wörter zzz\n" * 30)
    corpus = f"{{source: {tmp_path / 'other.en'}, target: {tmp_path / 'other.de'}}}"
    out = tmp_path / "tuned"
    tuned = recipe(f"data.train={corpus}", steps=1, average=None)
    run_training(tuned, out, TrainOptions(start_from=trained))
    assert (out / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()


def test_a_training_begins_with_the_languages_of_another_model(recipe, trained, tmp_path):
    """A recipe that names none; resuming without `--from` keeps the languages."""
    tuned = recipe("data.source_language=null", "data.target_language=null", steps=1, average=None)
    run_training(tuned, tmp_path, TrainOptions(start_from=trained))
    assert languages(tmp_path) == languages(trained) == ("en", "de")
    longer = recipe("data.source_language=null", "data.target_language=null", steps=2, average=None)
    run_training(longer, tmp_path, TrainOptions())
    assert languages(tmp_path) == ("en", "de")


def languages(run):
    config = Model.read_config(run)
    return config.source_language, config.target_language


def test_epochs_over_two_starts(recipe, trained, tmp_path):
    """Each ends where the epoch does; the steps of an epoch follow from its pairs."""
    changes = {"steps": None, "average": None, "validate_every": None, "save_every": 100}
    first = run_training(recipe(epochs=1, **changes), tmp_path)
    assert first.reason == f"1 epoch is done, after {first.step} steps"
    second = run_training(recipe(epochs=3, **changes), tmp_path)
    assert (second.step, second.tokens) == (3 * first.step, 3 * first.tokens)


def test_a_missing_device_is_refused(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device cuda: .* the device cpu"):
        run_training(recipe(), tmp_path / "a", TrainOptions(device="cuda"))
    with pytest.raises(ValueError, match="device tpu: choose auto, cpu or cuda"):
        run_training(recipe(), tmp_path / "b", TrainOptions(device="tpu"))


def test_records_of_the_metrics_log(trained, micro):
    records = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().rstrip("\n").split("\n")]
    reports = [record for record in records if "loss" in record]
    assert [record["step"] for record in reports] == [2, 3, 4, 6, 8, 9, 10, 12]
    names = ["step", "loss", "perplexity", "rate", "gradient_norm", "tokens", "tokens_per_second", "waiting"]
    assert all(set(names) <= record.keys() for record in reports)
    assert all(0 <= record["waiting"] < 1 < record["perplexity"] for record in reports)
    validations = [record for record in records if "validation_loss" in record]
    assert [record["step"] for record in validations] == [3, 6, 9, 12, 12]
    names = ["step", "validation_loss", "validation_perplexity", "accuracy", "bleu"]
    assert all(set(names) <= record.keys() for record in validations)
    assert len(reports) + len(validations) == len(records) - 1
    assert records[-1]["event"].startswith("publishes the average of step 8 to 12, the best by BLEU: ")
    assert list((trained / "training" / "tensorboard").glob("events*"))


def test_lines_on_the_console(trained, micro):
    log = (micro / "trained.log").read_text()
    assert "step 6/12  loss " in log
    for shown in ("perplexity ", "rate ", "gradient ", " tokens/s", "waiting "):
        assert shown in next(line for line in log.split("\n") if line.startswith("step 6/12"))
    source = (micro / "validation.en").read_text().split("\n")
    for place in (1, 3, 5):
        assert log.count(f"  source     {source[place]}\n") == 5
    assert "parameters on cpu in float32; 300 pairs" in log


def test_the_model_card_has_the_validation_score(trained):
    card = (trained / "README.md").read_text()
    assert card.startswith("# en → de\n")
    assert "averaged, of step 8, 12" in card
    records = map(json.loads, (trained / "metrics.jsonl").read_text().splitlines())
    record = [record for record in records if "bleu" in record][-1]
    assert f"{record['bleu']:.2f} ({record['signature']})" in card
    assert str(Path(trained).parent) not in card


def test_the_model_card_counts_the_training_pairs(recipe, tmp_path):
    changed = recipe(steps=4, validate_every=None, average=None)
    data = changed.data.model_copy(update={"checks": {"duplicate": "drop"}})
    run_training(changed.model_copy(update={"data": data}), tmp_path)
    rows = [line for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("| training pairs |")]
    assert re.fullmatch(
        r"\| training pairs \| [\d,]+ of [\d,]+ pairs kept(; \d+ dropped by `checks`, that .*)? \|", *rows
    )


def test_without_validations_every_checkpoint_publishes_its_weights(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("transduce.run.publishing.PublishedModel.publish_final", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        run_training(recipe(validate_every=None, save_every=4, steps=6), tmp_path)
    assert Model.read(tmp_path).config.weights == Weights(kind="last", steps=(6,))


def test_a_run_resumed_without_a_validation_publishes_its_last_weights(recipe, tmp_path):
    settings = {"validate_every": 1, "save_every": 1, "average": None}
    assert run_training(recipe(steps=2, **settings), tmp_path).weights.kind == "best"
    result = run_training(recipe("data.validation=null", steps=4, **settings), tmp_path)
    assert result.weights == Model.read(tmp_path).config.weights == Weights(kind="last", steps=(4,))


def test_scores_of_another_measure_are_not_compared(recipe, tmp_path, losses):
    """A BLEU of 0.3 would be better than any loss, which counts as a negative score."""
    settings = {"validate_every": 1, "save_every": 1, "average": None}
    losses += [measured(9.0, 0.3), 5.0, 6.0, 4.0]
    first = run_training(recipe(steps=1, **settings), tmp_path)
    second = run_training(recipe(steps=4, validate_by="loss", **settings), tmp_path)
    assert (first.weights.steps, second.weights.steps) == ((1,), (4,))
