"""Files of version 0.1.0 are read: recipes, model directories and checkpoints."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from micro_run import transduce, write_corpus
from transduce.model_directory import Model, verify
from transduce.recipe import Recipe, load
from transduce.storage.migrations import migrate_config, migrate_recipe, migrate_state
from transduce.trainer.train import TrainOptions, run_training

GOLDEN = Path(__file__).with_name("golden-0.1.0")
LINES = ["ant bee cat", "owl pig", "kite lark mole newt"]
TRANSLATIONS = ["s" * 17, "s" * 13, "s" * 25]
RECIPE = """
data: {train: {source: train.en, target: train.de}}
model: {preset: tiny}
training: {pieces: 2, steps: 7}
"""


@pytest.fixture
def run(tmp_path):
    """A run of version 0.1.0 after eight steps, whose corpus has moved."""
    for name, count in (("train", 60), ("validation", 4)):
        write_corpus(tmp_path, name, count)
    return shutil.copytree(GOLDEN, tmp_path / "run")


def recipe_of(run, steps):
    """Returns the recipe of the run, written with the keys of version 0.1.0."""
    values = json.loads((run / "recipe.yaml").read_text())
    assert "pieces" in values["training"]
    for corpus, name in ((values["data"]["train"][0], "train"), (values["data"]["validation"], "validation")):
        corpus |= {"source": str(run.parent / f"{name}.en"), "target": str(run.parent / f"{name}.de")}
    values["training"]["steps"] = steps
    (run.parent / "recipe.yaml").write_text(json.dumps(values))
    return load(run.parent / "recipe.yaml", warn=lambda line: None)


def test_a_model_directory_of_version_0_1_translates(run):
    assert json.loads((run / "config.json").read_text())["version"] == 1
    assert verify(run) == []
    assert Model.read_config(run) == Model.read(run).config
    ended = transduce("translate", run, given="\n".join(LINES) + "\n")
    assert ended.out.splitlines() == TRANSLATIONS


def test_a_run_of_version_0_1_resumes(run):
    lines: list[str] = []
    run_training(recipe_of(run, 12), run, TrainOptions("cpu", 1), lines.append)
    assert any("going on after step 8" in line for line in lines)
    assert not any("warning" in line and "damaged" in line for line in lines)
    assert json.loads((run / "config.json").read_text())["version"] == 2
    assert "micro_batches" in json.loads((run / "recipe.yaml").read_text())["training"]
    state = json.loads((run / "training" / "step-00000012" / "state.json").read_text())
    old = json.loads((GOLDEN / "training" / "step-00000008" / "state.json").read_text())
    assert state["tokens"] > old["words"]
    assert state["log_bytes"] > old["journal"]
    recipe = load(run.parent / "recipe.yaml", warn=lines.append)
    run_training(recipe, run.parent / "fresh", TrainOptions("cpu", 1), lines.append)
    resumed, fresh = (load_file(folder / "model.safetensors") for folder in (run, run.parent / "fresh"))
    assert resumed.keys() == fresh.keys()
    assert all(torch.allclose(resumed[name], fresh[name], atol=1e-4) for name in fresh)


def test_a_recipe_of_version_0_1_is_read_with_one_warning(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    lines: list[str] = []
    recipe = load(tmp_path / "recipe.yaml", ["training.pieces=3"], warn=lines.append)
    assert recipe.training.micro_batches == 3
    sentence = "`training.pieces` is now `training.micro_batches`"
    assert lines == [f"warning: {tmp_path / 'recipe.yaml'}: {sentence}", f"warning: --set: {sentence}"]


def test_the_warning_goes_to_standard_error(tmp_path, capsys):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    assert Recipe.load(tmp_path / "recipe.yaml").training.micro_batches == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_both_names_of_a_key_are_an_error(tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("pieces: 2", "pieces: 2, micro_batches: 2"))
    with pytest.raises(ValueError, match=r"unknown key `training\.pieces`"):
        load(tmp_path / "recipe.yaml")


def test_migrations_leave_their_argument_and_other_values_alone():
    old = {"training": {"pieces": 2}, "data": 3}
    assert migrate_recipe(old)[0] == {"training": {"micro_batches": 2}, "data": 3}
    assert old == {"training": {"pieces": 2}, "data": 3}
    for odd in ({}, {"training": None}, {"training": [1]}, {"training": {"micro_batches": 1}}):
        assert migrate_recipe(odd) == (odd, [])
    assert migrate_config({"version": 2, "a": 1}) == {"version": 2, "a": 1}
    assert migrate_config({"version": 1, "a": 1}) == {"version": 2, "a": 1}
    old = {"words": 3, "journal": 930, "judge": ["bleu", "sum"], "step": 1}
    assert migrate_state(old) == {"tokens": 3, "log_bytes": 930, "scored_by": ["bleu", "sum"], "step": 1}
