"""The pages of docs/results are what `transduce paper` prints in a fresh clone, which trains and measures nothing."""

import json
import os
import shutil
from pathlib import Path

import matplotlib
import pytest
import torch
from typer.testing import CliRunner

from transduce.commands import app
from transduce.paper import table3, trials
from transduce.paper.experiment_scales import scale_named
from transduce.paper.experiments import EXPERIMENTS, read_results
from transduce.paper.finished_runs import Record, distribute_records
from transduce.paper.trials import TrialResult
from transduce.recipe.recipe import Recipe
from transduce.settings import merged, validated

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture
def fresh_clone(tmp_path, monkeypatch):
    """The stored results without pages and corpora; no model can be trained, applied or timed."""

    def refuse(*_arguments, **_options):
        raise AssertionError("printing trains or measures")

    for owner, name in (
        (torch.nn.Module, "__call__"),
        (torch.Tensor, "backward"),
        (torch.optim.Optimizer, "step"),
        (trials, "prepare"),
        (trials, "run_training"),
    ):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    for path in (*RESULTS.glob("*.json"), RESULTS / "trainings.jsonl"):
        shutil.copy(path, tmp_path / "docs" / "results")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_page_of_results_belongs_to_an_experiment():
    assert {path.stem for path in RESULTS.glob("*.md")} - {"README", "claims"} == set(EXPERIMENTS)
    assert {path.stem for path in RESULTS.glob("*.json")} == set(EXPERIMENTS)
    drawn = {name for name, each in EXPERIMENTS.items() if each.draw}
    examples = {f"{name}-examples" for name, each in EXPERIMENTS.items() if each.draw_examples}
    assert {path.stem for path in RESULTS.glob("*.svg")} == drawn | examples | {"figure1", "figure2"}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_page_is_printed_from_its_results_alone(name, fresh_clone):
    before = files_in(fresh_clone)
    result = CliRunner().invoke(app, ["paper", name, "--out", "docs/results"])
    assert result.exit_code == 0, result.output
    written = {path.name: content for path, content in files_in(fresh_clone).items() if before.get(path) != content}
    assert written.pop(f"{name}.md") == (RESULTS / f"{name}.md").read_bytes() == result.stdout[:-1].encode()
    pictures = {name: EXPERIMENTS[name].draw, f"{name}-examples": EXPERIMENTS[name].draw_examples}
    for picture in [picture for picture, draw in pictures.items() if draw]:
        drawn = written.pop(f"{picture}.svg")
        if f"Matplotlib v{matplotlib.__version__}".encode() in (RESULTS / f"{name}.svg").read_bytes():
            assert drawn == (RESULTS / f"{picture}.svg").read_bytes()
    assert not written


@pytest.mark.parametrize(
    ("name", "row"), [("table1", "recurrent"), ("table2", "luong"), ("table4", "in-order"), ("scaling", "bilinear")]
)
def test_results_of_a_row_that_the_code_does_not_have_are_an_error(name, row, fresh_clone):
    path = fresh_clone / "docs" / "results" / f"{name}.json"
    path.write_text(path.read_text("utf-8").replace(f'"{row}"', '"perceptron"'), "utf-8")
    result = CliRunner().invoke(app, ["paper", name, "--out", "docs/results"])
    assert result.exit_code == 2
    assert "'perceptron' is not one of " in result.stderr


def test_every_training_of_a_page_has_a_record():
    lines = (json.loads(line) for line in (RESULTS / "trainings.jsonl").read_text("utf-8").splitlines())
    recorded = [Record(line["trial"], line["recipe"], line["found"]).parse(TrialResult) for line in lines]
    for name in ("table2", "table3", "table4", "scaling", "distance"):
        trainings = list(trainings_in(json.loads((RESULTS / f"{name}.json").read_text("utf-8"))))
        assert trainings
        assert all(training in recorded for training in trainings), name


def trainings_in(values):
    match values:
        case {"trial": _}:
            yield TrialResult(**values)
        case dict():
            for value in values.values():
                yield from trainings_in(value)
        case list():
            for value in values:
                yield from trainings_in(value)


def test_the_stored_runs_are_of_recipes_that_still_exist(tmp_path):
    """Else `--run` would train every row again, and print a table without the rows that are not trained."""
    records = [json.loads(line) for line in (RESULTS / "trainings.jsonl").read_text("utf-8").splitlines()]
    recipes = [record["recipe"] for record in records if "data" in record["recipe"]]
    assert len(recipes) > 100
    for recipe in recipes:
        # Records have no end of the run, which some schedules need.
        validated(Recipe, merged(recipe, {"training": {"minutes": 1.0}}), place="trainings.jsonl")
    folder = os.environ.get("TRANSDUCE_DATA", "")
    if not (Path(folder) / "multi30k").is_dir():
        pytest.skip("needs TRANSDUCE_DATA with multi30k")
    distribute_records(RESULTS, tmp_path)
    scale, work = scale_named("small"), tmp_path / "table3-small"
    for row in read_results("table3", RESULTS):
        assert len(table3._read_seeds(scale, row.name, None, work)) == len(row.seeds), row.name
