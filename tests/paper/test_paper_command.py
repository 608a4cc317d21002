"""`transduce paper`: what it writes, what it refuses, and the page of all results."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from transduce.commands import app
from transduce.measure import Score
from transduce.paper import experiments, page, record, table2
from transduce.paper.experiments import EXPERIMENTS, Result
from transduce.paper.printed import table2 as printed
from transduce.paper.scales import scale
from transduce.paper.systems import SYSTEMS


def invoke(*arguments):
    return CliRunner().invoke(app, ["paper", *map(str, arguments)])


@pytest.mark.parametrize("experiment", ["table2", "table3", "scaling", "distance"])
def test_an_unknown_row_is_told_what_there_is(experiment, tmp_path):
    result = invoke(experiment, "--row", "lstmm", "--work", tmp_path / "work", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--row lstmm: choose " in result.stderr


def test_the_papers_scale_asks_for_the_papers_corpus(tmp_path, monkeypatch):
    for values, said in (({}, "set TRANSDUCE_DATA"), ({"TRANSDUCE_DATA": str(tmp_path)}, "there is no")):
        monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        result = invoke("table3", "--scale", "paper", "--work", tmp_path / "work", "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert said in result.stderr


def test_the_papers_scale_is_the_papers(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    (tmp_path / "wmt14-en-de").mkdir()
    at = scale("paper")
    recipe = at.recipe({"preset": "base"}, {"steps": at.steps}, "base")
    assert (recipe.training.steps, recipe.training.batch_tokens, recipe.subwords.size) == (100_000, 25_000, 37_000)
    assert recipe.data.train[0].source.endswith("wmt14-en-de/train.en")


@pytest.mark.parametrize("name", ["paper", "paper-en-fr"])
def test_table_2_at_the_papers_scale_trains_for_the_papers_steps(name, tmp_path, monkeypatch):
    """Base has 100,000 steps and big 300,000 (paper section 5.2), and no clock ends either."""
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    for folder in ("wmt14-en-de", "wmt14-en-fr"):
        (tmp_path / folder).mkdir()
    at, budgets = scale(name), {}
    prepared = SimpleNamespace()
    monkeypatch.setattr(table2, "shared_store", lambda *arguments: prepared)
    monkeypatch.setattr(table2, "operations_a_step", lambda recipe, prepared: 3.2e13)
    monkeypatch.setattr(table2, "read_trial", lambda *arguments: None)
    monkeypatch.setattr(table2, "run_trial", lambda trial, work, steps, *rest: budgets.update({trial.name: steps}))
    monkeypatch.setattr(table2, "read_parallel_text", lambda corpus: SimpleNamespace(source=["a"], target=["a"]))
    monkeypatch.setattr(table2, "_waits", lambda spec: (1, 1))
    monkeypatch.setattr(table2, "SYSTEMS", [system for system in SYSTEMS if system.name in ("base", "big")])
    found = table2.table2(at, ["base", "big"], at.minutes, tmp_path, None, print)
    assert {name: [(each.steps, each.minutes) for each in steps] for name, steps in budgets.items()} == {
        "base": [(100_000, None)],
        "big": [(300_000, None)],
    }
    trainings = {row.system.name: row.trial.recipe.training for row in found.rows}
    assert (trainings["base"].average, trainings["big"].average, trainings["big"].save_every) == (5, 20, 595)
    text = printed.as_text(found)
    assert "BLEU at the steps of its preset" in text
    assert "equal arithmetic is" not in text.lower()


def test_the_papers_other_pair_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    (tmp_path / "wmt14-en-fr").mkdir()
    at, recipes = scale("paper-en-fr"), {}
    for system in SYSTEMS:
        recipes[system.name] = table2._recipe(at, system)
    big, base = recipes["big"], recipes["base"]
    assert (big.subwords.kind, big.subwords.size, big.model.dropout, base.model.dropout) == (
        "wordpiece",
        32_000,
        0.1,
        0.1,
    )
    assert big.data.test["test"].target.endswith("wmt14-en-fr/newstest2014.fr")
    found = table2.SystemComparison(
        at,
        [table2.SystemResult(system, None, None, (1, 1), None) for system in SYSTEMS],
        Score(0.5, "", None, None),
        None,
    )
    text = printed.as_text(found)
    assert "| Transformer (big): 41.8 |" in text
    assert "| ByteNet |\n" in text  # of which the paper has no figure for this pair
    result = invoke("table3", "--scale", "paper-en-fr", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--scale paper-en-fr: only Table 2 has that pair" in result.stderr


def test_the_small_scale_needs_nothing(monkeypatch):
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    at = scale("small")
    assert at.corpus == "the embedded corpus, 40,000 pairs, 4,000 subwords"
    assert at.corpus_named("test").embedded == "test"


def test_results_are_written_with_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda asked: _result("table1"))
    result = invoke("table1", "--out", tmp_path, "--work", tmp_path / "work")
    assert result.exit_code == 0
    text = (tmp_path / "table1.md").read_text("utf-8")
    assert text == result.stdout.removesuffix("\n")
    assert re.search(r"`transduce.*`, transduce \d.*, torch .*; this call took 0\.0 minutes\.", text, re.DOTALL)
    assert (tmp_path / "table1.json").read_text("utf-8") == "[\n 1,\n 2\n]\n"


def test_all_is_one_page_that_asks_nothing_of_the_network(tmp_path, monkeypatch):
    for name in EXPERIMENTS:
        monkeypatch.setitem(EXPERIMENTS, name, lambda asked, name=name: _result(name))
    result = invoke("all", "--out", tmp_path, "--work", tmp_path / "work")
    assert result.exit_code == 0
    assert f"all tables on one page: {tmp_path / 'all.html'}" in result.stderr
    text = (tmp_path / "all.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == list(EXPERIMENTS)
    assert text.count("<svg") == len(EXPERIMENTS)
    assert "<th>a &lt; b</th>" in text
    assert "<td><code>c</code></td><td>1</td><td></td>" in text
    assert not re.findall(r'(?:src|href)="(?!#)', text)


def test_a_page_has_what_there_is(tmp_path):
    _result("scaling").write(tmp_path, torch.device("cpu"), 1.0)
    text = page.write_page(tmp_path).read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == ["scaling"]


def test_a_page_has_what_a_readme_says_of_each_table(tmp_path):
    _result("scaling").write(tmp_path, torch.device("cpu"), 1.0)
    said = "# Results\n\nMade here.\n\n## [Scaling](scaling.md): why\n\nIt **holds**, see [there](../a.md).\n"
    (tmp_path / "README.md").write_text(f"{said}\n## [Table 1](table1.md)\n\nNot here.\n", "utf-8")
    text = page.write_page(tmp_path).read_text("utf-8")
    assert text.index("<p>Made here.</p>") < text.index('<section id="scaling">')
    assert text.index("<h1>What") < text.index("<p>It <strong>holds</strong>, see there.</p>") < text.index("<svg")
    assert "Not here" not in text


def test_what_was_found_reaches_the_folder_of_tables_whatever_ends_the_command(tmp_path, monkeypatch):
    def ended(asked):
        record.add_record(asked.folder("table3"), record.Record("base-1", {}, {"bleu": 9.5}))
        raise ValueError("ended")

    monkeypatch.setitem(EXPERIMENTS, "table3", ended)
    assert invoke("table3", "--work", tmp_path / "here", "--out", tmp_path / "out").exit_code == 2
    (line,) = (tmp_path / "out" / "trainings.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {"folder": "table3-small", "trial": "base-1", "recipe": {}, "found": {"bleu": 9.5}}
    monkeypatch.setitem(EXPERIMENTS, "table3", lambda asked: _result("table3"))
    assert invoke("table3", "--work", tmp_path / "other", "--out", tmp_path / "out").exit_code == 0
    known = record.records(tmp_path / "other" / "table3-small", "base-1")
    assert known == [record.Record("base-1", {}, {"bleu": 9.5})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1, is damaged"),
        (b"\xff", "line 1, is damaged"),
        (b"[]", "line 1, has not the keys folder, trial, recipe, found"),
        (b'\n{"folder": "a", "trial": "b", "recipe": 1, "found": null}', "line 2, has not the keys"),
        (b'{"folder": "../a", "trial": "b", "recipe": 1, "found": {}}', "'../a' is no folder of trainings"),
        (b'{"folder": "/a", "trial": "b", "recipe": 1, "found": {}}', "'/a' is no folder of trainings"),
        (b'{"folder": "a/b/c", "trial": "b", "recipe": 1, "found": {}}', "'a/b/c' is no folder of trainings"),
        (b'{"folder": 1, "trial": "b", "recipe": 1, "found": {}}', "line 1: folder and trial are words"),
        (b'{"folder": "a", "trial": "b", "recipe": "\\ud800", "found": {}}', "line 1: `recipe`"),
        (b"[" * 100_000, "line 1, is damaged"),
    ],
)
def test_a_record_that_is_none_is_refused(content, message, tmp_path):
    (tmp_path / "trainings.jsonl").write_bytes(content)
    result = invoke("table1", "--work", tmp_path / "work", "--out", tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_readme_of_something_else_and_pictures_that_are_none_do_not_keep_a_page_from_being_made(tmp_path):
    _result("scaling").write(tmp_path, torch.device("cpu"), 1.0)
    (tmp_path / "README.md").write_text("# Another\n\n![logo](logo.png)\n", "utf-8")
    assert "Another" not in page.write_page(tmp_path).read_text("utf-8")
    (tmp_path / "README.md").write_text("# Mine\n\n![logo](logo.png)\n\n## [S](scaling.md)\n\n![x](no.svg)\n", "utf-8")
    assert "<h1>Mine</h1>" in page.write_page(tmp_path).read_text("utf-8")


def test_experiments_know_their_rows(tmp_path):
    asked = experiments.Asked("small", ("base",), 1, None, tmp_path, 1, experiments.TrainOptions("cpu", 1), print)
    assert asked.chosen(["base", "big"]) == ["base"]
    assert asked._replace(rows=()).chosen(["base", "big"]) == ["base", "big"]
    assert asked.folder("table2") == tmp_path / "table2-small"


def _result(name):
    def draw(path):
        path.write_text('<?xml version="1.0"?><svg xmlns="a"></svg>', "utf-8")

    return Result(
        name, "What <it> is", "| a < b | d | e |\n| --- | --- | --- |\n| `c` | 1 |  |\n\nA sentence.", [1, 2], draw
    )
