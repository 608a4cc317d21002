"""A run that is killed or stopped and started again ends bit-identical to an uninterrupted one."""

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from micro_run import Moment, forked, write_corpus
from transduce import __version__
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run.checkpoints import NOT_YET, SAVED, Checkpoint, Checkpoints
from transduce.run.run_directory import check_can_go_on
from transduce.run.train import prepare
from transduce.run.trainer import Trainer
from transduce.settings import merged
from transduce.storage.checksums import checksums_of_files
from transduce.storage.locks import exclusive_lock

TIMES = ("tokens_per_second", "waiting", "elapsed", "validation_seconds")


def train(micro, out, *changes, moment=None):
    return forked("train", micro / "recipe.yaml", "--out", out, *changes, moment=moment)


def weights(run):
    return (run / "model.safetensors").read_bytes()


def records(run):
    """Returns the records of the metrics log without times."""
    lines = (run / "metrics.jsonl").read_text().rstrip("\n").split("\n")
    return [{name: value for name, value in json.loads(line).items() if name not in TIMES} for line in lines]


def checkpoints(run):
    return sorted(int(path.name.removeprefix("step-")) for path in (run / "training").glob("step-*"))


def files(run):
    """Returns the content of every file of a run, by name, except for TensorBoard's."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in run.rglob("*")
        if path.is_file() and "tensorboard" not in path.parts
    }


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the finished run."""
    return shutil.copytree(trained, tmp_path / "copied")


def assert_as_if_never_killed(micro, trained, out, moments):
    for moment in moments:
        train(micro, out, moment=moment)
    ended = train(micro, out)
    assert ended.code == 0, ended.error
    assert weights(out) == weights(trained)
    assert records(out) == records(trained)
    assert checkpoints(out) == [8, 12]
    # A temporary file that an interrupted write leaves is removed.
    assert files(out).keys() == files(trained).keys()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_killed_several_times(micro, trained, tmp_path, seed):
    drawn = random.Random(seed)
    moments = [Moment(drawn.randint(1, 90)) for _ in range(3)]
    assert train(micro, tmp_path / "first", moment=moments[0]).code == -signal.SIGKILL
    assert_as_if_never_killed(micro, trained, tmp_path / "first", moments[1:])


@pytest.mark.parametrize("change", ["optimiser={kind: muon}", "regulariser={kind: r_drop, share: 0.5}"])
def test_other_optimisers_and_regularisers_go_on_bit_identically_after_a_kill(micro, trained, tmp_path, change):
    changed = "--set", f"training.{change}"
    assert train(micro, tmp_path / "whole", *changed).code == 0
    assert weights(tmp_path / "whole") != weights(trained)
    assert train(micro, tmp_path / "killed", *changed, moment=Moment("step 10/12")).code == -signal.SIGKILL
    ended = train(micro, tmp_path / "killed", *changed)
    assert "going on after step 8\n" in ended.error
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


@pytest.mark.parametrize(
    "line",
    [
        "learning subwords",
        "validation after step 3",  # before there is any checkpoint, with a record in the metrics log already
        "step 12/12",
        "averaged weights",  # after the last checkpoint, before averaging
    ],
)
def test_killed_at_a_line(micro, trained, tmp_path, line):
    assert train(micro, tmp_path / "run", moment=Moment(line)).code == -signal.SIGKILL
    assert_as_if_never_killed(micro, trained, tmp_path / "run", [])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_every_operation(micro, trained, tmp_path):
    for operation in range(1, 2000):
        out = tmp_path / str(operation)
        if train(micro, out, moment=Moment(operation)).code == 0:
            break
        assert_as_if_never_killed(micro, trained, out, [])
        shutil.rmtree(out)
    assert operation > 100


def test_killed_from_outside(micro, trained, tmp_path):
    command = [sys.executable, "-m", "transduce", "train", micro / "recipe.yaml", "--out", tmp_path / "run"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        lines = random.Random(4).randint(20, 40)
        for _ in range(lines):
            process.stderr.readline()
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert_as_if_never_killed(micro, trained, tmp_path / "run", [])


@pytest.mark.parametrize(("number", "code", "step"), [(signal.SIGTERM, 143, 9), (signal.SIGINT, 130, 6)])
def test_a_signal_saves_a_checkpoint_between_those_of_the_schedule(micro, trained, tmp_path, number, code, step):
    out = tmp_path / "run"
    ended = train(micro, out, moment=Moment(f"step {step}/12", number))
    assert (ended.code, ended.out) == (code, "")
    assert ended.error.endswith(f"stopped after step {step}; the same command goes on from there\n")
    assert checkpoints(out)[-1] == step
    ended = train(micro, out)
    assert ended.code == 0
    assert f"going on after step {step}\n" in ended.error
    assert weights(out) == weights(trained)
    assert checkpoints(out) == [8, 12]
    reports = [record for record in records(out) if "loss" in record]
    assert [record["step"] for record in reports] == sorted({record["step"] for record in reports})
    assert sum(record["tokens"] for record in reports) == sum(r["tokens"] for r in records(trained) if "loss" in r)


def test_a_second_signal_acts_at_once(micro, trained, tmp_path):
    """Both signals arrive while a validation is printed, before its step is saved."""
    ended = train(micro, tmp_path / "run", moment=Moment("  source", signal.SIGINT))
    assert (ended.code, ended.out) == (130, "")
    assert ended.error.count("  source") == 2
    assert "stopped after" not in ended.error
    assert checkpoints(tmp_path / "run") == []
    assert_as_if_never_killed(micro, trained, tmp_path / "run", [])


def test_a_finished_run_stays_unchanged(micro, copied):
    before = files(copied)
    ended = train(micro, copied)
    assert ended.code == 0
    assert ended.error.endswith(f"{copied} is finished: 12 steps are done\n")
    assert ended.out.split("\n")[:-1] == [
        f"{copied}: 12 steps are done; weights: averaged of step 8, 12",
        f"next: transduce evaluate {copied} --test spare",
    ]
    assert files(copied) == before


def test_a_finished_run_goes_on_with_more_steps(micro, copied, tmp_path):
    assert train(micro, copied, "--set", "training.steps=14").code == 0
    assert train(micro, tmp_path / "straight", "--set", "training.steps=14").code == 0
    assert weights(copied) == weights(tmp_path / "straight")
    assert checkpoints(copied) == checkpoints(tmp_path / "straight") == [12, 14]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("model.dropout=0.2", "`model.dropout` was 0.1 and is 0.2"),
        ("training.optimiser.betas=[0.9, 0.99]", "`training.optimiser.betas` was [0.9, 0.98] and is [0.9, 0.99]"),
        ("training.average=null", "`training.average` was 2 and is null"),
        ("data.max_length=100", "`data.max_length` was 256 and is 100"),
    ],
)
def test_a_changed_recipe_is_refused(micro, copied, change, difference):
    before = files(copied)
    ended = train(micro, copied, "--set", "training.steps=14", "--set", change)
    assert (ended.code, ended.out) == (2, "")
    assert difference in ended.error
    assert "--restart" in ended.error
    assert "steps" not in ended.error
    assert files(copied) == before


def test_a_model_without_its_checkpoints_is_not_prepared_again(micro, copied):
    shutil.rmtree(copied / "training")
    before = files(copied)
    ended = forked("train", micro / "recipe.yaml", "--out", copied, "--prepare")
    assert ended.code == 2
    assert "holds a model whose `training` folder is gone" in ended.error
    assert files(copied) == before


CLIP = ("--set", "training.steps=14", "--set", "training.clip=0.5")


def test_remedies_of_a_divergence_go_on_where_they_are_accepted(micro, copied):
    ended = train(micro, copied, *CLIP)
    assert ended.code == 2
    difference = "`training.clip` was null and is 0.5"
    remedy = "go on with the change by `transduce train` with --accept-changes, or begin anew with --restart"
    assert f"{difference}. Train into another directory, {remedy}" in ended.error
    earlier = (copied / "recipe.yaml").read_bytes()
    ended = train(micro, copied, *CLIP, "--accept-changes")
    assert ended.code == 0, ended.error
    assert f"the recipe changes: {difference}; the one before is kept in {copied / 'training'}" in ended.error
    assert "going on after step 12" in ended.error
    assert json.loads((copied / "recipe.yaml").read_text())["training"]["clip"] == 0.5
    assert (copied / "training" / "recipe-until-step-12.yaml").read_bytes() == earlier
    again = train(micro, copied, *CLIP)
    assert again.code == 0, again.error
    assert "the recipe changes" not in again.error


def test_no_other_change_is_accepted(micro, copied):
    ended = train(micro, copied, *CLIP, "--set", "training.label_smoothing=0.2", "--accept-changes")
    assert ended.code == 2
    assert "`training.label_smoothing` was 0.1 and is 0.2; `training.clip` was null and is 0.5" in ended.error
    assert "go on with the change" not in ended.error
    assert not list((copied / "training").glob("recipe-until*"))


def rewrite(path, content, manifest):
    """Writes another content of a file, with its checksum in the manifest."""
    path.write_bytes(content)
    values = json.loads(manifest.read_text())
    values.get("files", values).update(checksums_of_files([path]))
    manifest.write_text(json.dumps(values))


def rewrite_recipe(run, change):
    """Writes the recipe of a run as another version would have written it."""
    values = json.loads((run / "recipe.yaml").read_text())
    change(values)
    rewrite(run / "recipe.yaml", json.dumps(values).encode(), run / "manifest.json")


def test_a_key_that_does_not_exist_is_named(micro, copied):
    rewrite_recipe(copied, lambda values: values["training"].update(gone=3))
    ended = train(micro, copied, "--set", "training.steps=14")
    assert (ended.code, ended.out) == (2, "")
    assert f"{copied / 'recipe.yaml'}: unknown key `training.gone`" in ended.error


def test_a_checkpoint_of_another_format_is_refused(micro, copied):
    path = copied / "training" / "step-00000012" / "state.json"
    rewrite(path, json.dumps({**json.loads(path.read_text()), "version": 9}).encode(), path.with_name("manifest.json"))
    ended = train(micro, copied)
    assert (ended.code, ended.out) == (2, "")
    assert f"transduce: {path} has version 9; this program reads version 1" in ended.error


def test_another_version_of_the_package_is_a_warning(micro, copied):
    path = copied / "training" / "step-00000012" / "state.json"
    state = json.loads(path.read_text())
    state["environment"]["transduce"] = "0.0.1"
    rewrite(path, json.dumps(state).encode(), path.with_name("manifest.json"))
    ended = train(micro, copied, "--set", "training.steps=13")
    assert ended.code == 0, ended.error
    assert f"warning: transduce was 0.0.1 and is {__version__}" in ended.error


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"training": {"position": [0, "1", 2]}}, '`training.position.1` is "1"'),
        ({"training": {"elapsed": None}}, "`training.elapsed` is null"),
        ({"loss_scale": 1.0}, "`loss_scale` is 1.0"),
        ({"environment": []}, "`environment` is []"),
        ({"training": {"skips": [1, 2, 3, 4]}}, "`training.skips` is [1, 2, 3, 4]"),
    ],
)
def test_a_state_of_other_types_is_refused_with_its_path(micro, copied, change, fault):
    path = copied / "training" / "step-00000012" / "state.json"
    rewrite(path, json.dumps(merged(json.loads(path.read_text()), change)).encode(), path.with_name("manifest.json"))
    ended = train(micro, copied)
    assert (ended.code, ended.out) == (2, "")
    assert f"transduce: {path}: {fault}" in ended.error
    assert "Move that checkpoint away" in ended.error
    assert checkpoints(copied) == [8, 12]


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors"])
@pytest.mark.parametrize("verb", ["train", "average"])
def test_tensors_of_another_model_are_refused(micro, copied, tmp_path, name, verb):
    path = copied / "training" / "step-00000012" / name
    rewrite(path, safetensors.torch.save({"other": torch.ones(3)}), path.with_name("manifest.json"))
    if verb == "train":
        ended = train(micro, copied)
    else:
        ended = forked("average", copied, "--last", "2", "--out", tmp_path / "mean")
    assert ended.code == (0 if (verb, name) == ("average", "optimiser.safetensors") else 2), ended.error
    assert ended.code == 0 or "another model" in ended.error or "different models" in ended.error


def test_a_moved_corpus_is_no_difference(micro, copied, tmp_path):
    for side in ("en", "de"):
        shutil.copy(micro / f"train.{side}", tmp_path / f"moved.{side}")
    moved = f"data.train={{source: {tmp_path}/moved.en, target: {tmp_path}/moved.de}}"
    ended = train(micro, copied, "--set", moved, "--set", "training.seed=3")
    assert "`training.seed` was 1 and is 3" in ended.error
    assert "data.train" not in ended.error


def test_keys_that_may_change(micro, copied, tmp_path):
    write_corpus(tmp_path, "other", 4)
    free = {
        "steps": 14,
        "minutes": 50,
        "patience": 9,
        "log_every": 3,
        "validate_every": 2,
        "validate_by": "loss",
    }
    changes = [f"--set=training.{key}={value}" for key, value in free.items()]
    changes += [f"--set=data.validation={{source: {tmp_path}/other.en, target: {tmp_path}/other.de}}"]
    changes += [f"--set=data.test={{more: {{source: {tmp_path}/other.en, target: {tmp_path}/other.de}}}}"]
    ended = train(micro, copied, *changes)
    assert ended.code == 0, ended.error
    assert "validation after step 14" in ended.error
    assert list(load(copied / "recipe.yaml").data.test) == ["more"]


def test_a_run_goes_on_where_its_corpus_has_moved(micro, tmp_path):
    (tmp_path / "old").mkdir()
    for name, count in (("train", 40), ("validation", 3)):
        write_corpus(tmp_path / "old", name, count)
    shutil.copy(micro / "recipe.yaml", tmp_path / "old")
    assert train(tmp_path / "old", tmp_path / "run", "--set", "training.steps=2").code == 0
    (tmp_path / "old").rename(tmp_path / "new")
    ended = train(tmp_path / "new", tmp_path / "run", "--set", "training.steps=4")
    assert ended.code == 0, ended.error
    assert "going on after step 2" in ended.error


def test_other_data_under_the_same_name_is_refused(micro, tmp_path):
    for name, count in (("train", 40), ("validation", 3)):
        write_corpus(tmp_path, name, count)
    shutil.copy(micro / "recipe.yaml", tmp_path)
    out, text = tmp_path / "run", (tmp_path / "train.en").read_text()
    assert train(tmp_path, out, "--set", "training.steps=2").code == 0
    (tmp_path / "train.en").write_text(text.replace("ant", "bee", 1))
    store = files(out / "training" / "store")
    ended = train(tmp_path, out, "--set", "training.steps=4")
    assert (ended.code, ended.out) == (2, "")
    assert "training data" in ended.error
    assert "has changed" in ended.error
    assert files(out / "training" / "store") == store, "what the run was trained on is still there"
    (tmp_path / "train.en").write_text(text)
    assert train(tmp_path, out, "--set", "training.steps=4").code == 0


def test_checkpoints_without_a_recipe_are_refused_and_kept_by_a_restart(micro, copied):
    (copied / "recipe.yaml").unlink()
    ended = train(micro, copied)
    assert (ended.code, ended.out) == (2, "")
    assert f"{copied} holds checkpoints and no recipe.yaml" in ended.error
    assert train(micro, copied, "--restart", "--set", "training.steps=2").code == 0
    assert checkpoints(copied / "before-restart-1") == [8, 12]


def test_a_restart_keeps_a_model_without_recipe_and_checkpoints(micro, copied):
    """Such as an imported model."""
    shutil.rmtree(copied / "training")
    (copied / "recipe.yaml").unlink()
    before = files(copied)
    assert train(micro, copied, "--set", "training.steps=2").code == 2
    ended = train(micro, copied, "--restart", "--set", "training.steps=2")
    assert ended.code == 0, ended.error
    assert files(copied / "before-restart-1") == before


def test_a_restart_keeps_the_earlier_run(micro, copied):
    before = files(copied)
    ended = train(micro, copied, "--restart", "--set", "training.seed=2", "--set", "training.steps=4")
    assert ended.code == 0, ended.error
    assert "going on" not in ended.error
    assert f"kept in {copied / 'before-restart-1'}" in ended.error
    assert files(copied / "before-restart-1") == before
    assert train(micro, copied, "--restart", "--set", "training.steps=2").code == 0
    assert files(copied / "before-restart-1") == before
    assert checkpoints(copied / "before-restart-2") == [4]
    assert not (copied / "before-restart-2" / "before-restart-1").exists()


def test_other_threads_are_a_warning(micro, copied):
    ended = train(micro, copied, "--set", "training.steps=13", "--threads", "2")
    assert ended.code == 0
    assert "warning: threads was 1 and is 2" in ended.error


def test_sharding_a_replicated_run_is_a_warning(copied, log_lines):
    recipe = load(copied / "recipe.yaml")
    run = Trainer(recipe, copied, prepare(recipe, copied), torch.device("cpu"))
    before = {**run.environment.environment, "parallel": "sharded"}
    assert "parallel was sharded and is replicated" in run.environment.warning(before)


def test_another_precision_is_a_warning(copied, monkeypatch, log_lines):
    """`precision: auto` depends on the machine."""
    recipe = load(copied / "recipe.yaml")
    monkeypatch.setattr("transduce.training.precision.has_fast_bfloat16", lambda device: True)
    wider = recipe.model_copy(update={"training": recipe.training.model_copy(update={"precision": "auto"})})
    run = Trainer(wider, copied, prepare(recipe, copied), torch.device("cpu"))
    run.checkpointer.resume(run.environment)
    assert any("precision was float32 and is bfloat16" in line for line in log_lines)


def test_without_its_training_folder_a_model_is_not_trained_over(micro, copied):
    shutil.rmtree(copied / "training")
    before = files(copied)
    ended = train(micro, copied)
    assert (ended.code, ended.out) == (2, "")
    assert "--restart" in ended.error
    assert files(copied) == before


def test_a_model_that_was_not_trained_here_is_not_trained_over(micro, copied):
    """Such as one of another program, which has no recipe."""
    shutil.rmtree(copied / "training")
    (copied / "recipe.yaml").unlink()
    ended = train(micro, copied)
    assert (ended.code, "`training` folder is gone" in ended.error) == (2, True), ended.error


@pytest.mark.parametrize("of_earlier_version", [False, True])
@pytest.mark.parametrize("move_away", [shutil.rmtree, lambda path: path.rename(path.with_suffix(".old"))])
def test_without_its_checkpoints_a_model_is_not_trained_over(micro, copied, move_away, of_earlier_version):
    if of_earlier_version:
        (copied / "training" / SAVED).unlink()
    for path in (copied / "training").glob("step-*"):
        move_away(path)
    before = files(copied)
    ended = train(micro, copied)
    assert (ended.code, "whose checkpoints are gone" in ended.error) == (2, True), ended.error
    assert files(copied) == before


def test_checkpoints_are_missed_whatever_saved_them_and_never_where_none_was_saved(tmp_path, monkeypatch):
    out, training = tmp_path / "run", tmp_path / "run" / "training"
    (training / "store").mkdir(parents=True)
    monkeypatch.setattr("transduce.run.run_directory.has_model", lambda _: True)
    (training / SAVED).write_text(NOT_YET)
    check_can_go_on(out)  # published by a validation, and no checkpoint could be written
    Checkpoints(training).save(Checkpoint(400, {"a": torch.zeros(1)}, {"b": torch.zeros(1)}, {}))
    check_can_go_on(out)
    (training / "step-00000400").rename(training / "step-00000400.bad")
    with pytest.raises(ValueError, match="whose checkpoints are gone"):
        check_can_go_on(out)


def test_a_pending_validation_may_have_lost_its_corpus(micro, copied):
    newest = max((copied / "training").glob("step-*"))
    state = json.loads((newest / "state.json").read_text())
    (newest / "state.json").write_text(json.dumps(merged(state, {"training": {"validation_pending": True}})))
    manifest = json.loads((newest / "manifest.json").read_text())
    (newest / "manifest.json").write_text(json.dumps(manifest | checksums_of_files([newest / "state.json"])))
    ended = train(micro, copied, "--set", "training.steps=13", "--set", "data.validation=null")
    assert (ended.code, "13 steps are done" in ended.out) == (0, True), ended.error


def test_a_folder_that_is_no_run_is_left_unchanged(micro, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    ended = train(micro, tmp_path)
    assert ended.code == 2
    assert f"{tmp_path} is not empty and holds no run" in ended.error
    assert files(tmp_path) == {"letter.txt": b"dear"}


@pytest.mark.parametrize("more", [(), ("--restart",)])
def test_a_recipe_that_no_run_has_written_is_left_unchanged(micro, tmp_path, more):
    """`train mine/recipe.yaml --out mine`: comments and relative paths would be lost."""
    (tmp_path / "recipe.yaml").write_text("# mine\n" + (micro / "recipe.yaml").read_text())
    before = files(tmp_path)
    ended = train(micro, tmp_path, *more)
    assert (ended.code, ended.out) == (2, "")
    assert f"{tmp_path} holds a recipe.yaml that no run has written" in ended.error
    assert files(tmp_path) == before


def test_an_edited_recipe_of_a_run_is_refused(copied):
    text = (copied / "recipe.yaml").read_text()
    (copied / "recipe.yaml").write_text(text.replace('"label_smoothing": 0.1', '"label_smoothing": 0.2'))
    before = files(copied)
    ended = forked("train", copied / "recipe.yaml", "--out", copied, "--set", "training.steps=14")
    assert (ended.code, ended.out) == (2, "")
    assert f"{copied / 'recipe.yaml'} was edited after the run had written it" in ended.error
    assert files(copied) == before
    (copied / "recipe.yaml").write_text(text)
    assert forked("train", copied / "recipe.yaml", "--out", copied, "--set", "training.steps=14").code == 0


def test_a_restart_moves_nothing_where_its_corpus_is_missing(micro, copied):
    before = files(copied)
    ended = train(micro, copied, "--restart", "--set", "data.train={source: nowhere.en, target: nowhere.de}")
    assert (ended.code, ended.out) == (2, "")
    assert "nowhere.en" in ended.error
    assert files(copied) == before


def test_nothing_is_prepared_into_a_folder_that_is_no_run(micro, tmp_path):
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "slides.txt").write_text("dear")
    for options in ((), ("--prepare",)):
        ended = forked("train", micro / "recipe.yaml", "--out", tmp_path, *options)
        assert (ended.code, ended.out) == (2, "")
        assert f"{tmp_path} is not empty and holds no run" in ended.error
    assert files(tmp_path) == {"training/slides.txt": b"dear"}


def test_the_result_names_the_published_weights(micro, tmp_path):
    """A run is killed after a validation that published, and resumed from the checkpoint before that validation."""
    changes = {"average": "null", "validate_by": "loss", "validate_every": 2, "log_every": 1, "schedule.peak": 0.01}
    changes = [f"--set=training.{key}={value}" for key, value in changes.items()]
    train(micro, tmp_path, *changes, moment=Moment("step 11"))
    assert (checkpoints(tmp_path), Model.read(tmp_path).config.weights.steps) == ([4, 8], (10,))
    ended = train(micro, tmp_path, *changes, "--set", "training.steps=9")
    assert ended.code == 0, ended.error
    assert "the best of step 8" in ended.error
    assert "weights: last of step 9" in ended.out
    assert Model.read(tmp_path).config.weights.steps == (9,)


def test_saving_validating_and_logging_do_not_change_the_weights(micro, trained, tmp_path):
    changes = ["save_every=3", "validate_every=5", "log_every=1", "keep=5"]
    assert train(micro, tmp_path, *(f"--set=training.{change}" for change in changes)).code == 0
    name = "training/step-00000012/model.safetensors"
    assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()
    assert checkpoints(tmp_path) == [3, 6, 9, 12]


def test_another_seed_is_another_training(micro, trained, tmp_path):
    assert train(micro, tmp_path, "--set", "training.seed=2").code == 0
    assert weights(tmp_path) != weights(trained)


def test_two_trainings_cannot_share_a_directory_and_a_dead_one_releases_it(micro, trained, tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "transduce", "train", micro / "recipe.yaml", "--out", out]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            line = b"\n"
            while line and not line.startswith(b"step"):
                line = process.stderr.readline()
            assert line, "the training has ended before its first step"
            process.send_signal(signal.SIGSTOP)
            before = files(out)
            ended = train(micro, out)
            assert (ended.code, ended.out) == (2, "")
            assert f"another training is at work in {out}" in ended.error
            restarted = train(micro, out, "--restart")
            assert restarted.code == 2
            assert files(out) == before
        finally:
            process.kill()
    assert_as_if_never_killed(micro, trained, out, [])


def test_a_run_resumes_from_the_checkpoint_before_a_damaged_one(micro, trained, copied):
    place = copied / "training" / "step-00000012" / "optimiser.safetensors"
    content = place.read_bytes()
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 4]))
    ended = train(micro, copied)
    assert ended.code == 0, ended.error
    assert "step-00000012 is damaged: optimiser.safetensors has changed" in ended.error
    assert "going on after step 8\n" in ended.error
    assert weights(copied) == weights(trained)
    # The first training compared the average with its best weights, which its model directory has no longer.
    compared = [record for record in records(trained) if not record.get("event", "").startswith("publishes ")]
    assert records(copied) == compared
    assert (copied / "training" / "damaged-00000012" / "optimiser.safetensors").exists()


def test_a_damaged_checkpoint_is_left_out_of_the_average(micro, copied):
    (copied / "training" / "step-00000008" / "model.safetensors").write_bytes(b"")
    (copied / "manifest.json").unlink()
    ended = train(micro, copied)
    assert ended.code == 0, ended.error
    assert "step-00000008 is damaged: model.safetensors" in ended.error
    assert Model.read(copied).config.weights.steps == (12,)


def test_preparing_is_refused_while_a_training_runs_in_the_directory(micro, tmp_path):
    with exclusive_lock(tmp_path / "run", "training"):
        ended = forked("train", micro / "recipe.yaml", "--out", tmp_path / "run", "--prepare")
    assert (ended.code, ended.out) == (2, "")
    assert "another training is at work" in ended.error


def test_a_closed_standard_error_does_not_stop_a_training(micro, trained, tmp_path):
    command = [sys.executable, "-m", "transduce", "train", micro / "recipe.yaml", "--out", tmp_path / "run"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as training:
        training.stderr.readline()
        training.stderr.close()
        assert training.wait(60) == 0
    assert weights(tmp_path / "run") == weights(trained)


def test_a_full_disk_where_the_log_goes_does_not_stop_a_training(micro, trained, tmp_path):
    command = [sys.executable, "-m", "transduce", "train", micro / "recipe.yaml", "--out", tmp_path / "run"]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(command, stdout=subprocess.DEVNULL, stderr=full, timeout=60).returncode == 0
    assert weights(tmp_path / "run") == weights(trained)


def test_a_training_on_a_cpu_never_imports_the_compiler(micro, tmp_path):
    """It takes three seconds."""
    program = f"""
import sys
from pathlib import Path
from transduce.recipe.recipe import load
from transduce.run.train import run_training
for kind in ("adam", "muon"):
    changes = ["training.steps=4", "training.optimiser={{kind: " + kind + "}}"]
    recipe = load(Path({str(micro / "recipe.yaml")!r}), changes)
    run_training(recipe, Path({str(tmp_path)!r}) / kind)
sys.exit("torch._dynamo" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_verify_names_damage_in_checkpoints_too(copied):
    assert forked("info", copied, "--verify").code == 0
    (copied / "training" / "step-00000008" / "state.json").write_text("{}")
    ended = forked("info", copied, "--verify")
    assert ended.code == 2
    assert "checkpoint 8: state.json has 2 bytes where the manifest says" in ended.error
