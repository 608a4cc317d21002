"""`transduce paper`: the files that it writes, its error messages, and the page of all results."""

import json
import re
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from transduce.commands import app
from transduce.measure import Score
from transduce.paper import experiments, page, record, table2
from transduce.paper.experiments import EXPERIMENTS, ExperimentResult
from transduce.paper.printed import table2 as printed
from transduce.paper.published_systems import SYSTEMS
from transduce.paper.scales import scale_named


def invoke(*arguments):
    return CliRunner().invoke(app, ["paper", *map(str, arguments)])


@pytest.mark.parametrize("experiment", ["table2", "table3", "scaling", "distance"])
def test_an_unknown_row_is_an_error_with_the_known_rows(experiment, tmp_path):
    result = invoke(experiment, "--row", "lstmm", "--work", tmp_path / "work", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--row lstmm: choose " in result.stderr


def test_the_papers_scale_needs_the_papers_corpus(tmp_path, monkeypatch):
    for values, message in (({}, "set TRANSDUCE_DATA"), ({"TRANSDUCE_DATA": str(tmp_path)}, "there is no")):
        monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        result = invoke("table3", "--scale", "paper", "--work", tmp_path / "work", "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert message in result.stderr


def test_the_papers_scale_has_the_papers_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    (tmp_path / "wmt14-en-de").mkdir()
    at = scale_named("paper")
    recipe = at.recipe({"preset": "base"}, {"steps": at.steps}, "base")
    assert (recipe.training.steps, recipe.training.batch_tokens, recipe.subwords.size) == (100_000, 25_000, 37_000)
    assert recipe.data.train[0].source.endswith("wmt14-en-de/train.en")


@pytest.mark.parametrize("name", ["paper", "paper-en-fr"])
def test_table_2_at_the_papers_scale_trains_for_the_papers_steps(name, tmp_path, monkeypatch):
    """Base has 100,000 steps and big 300,000 (paper section 5.2), and no clock ends either."""
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    for folder in ("wmt14-en-de", "wmt14-en-fr"):
        (tmp_path / folder).mkdir()
    at, budgets = scale_named(name), {}
    prepared = SimpleNamespace()
    monkeypatch.setattr(table2, "shared_store", lambda *arguments: prepared)
    monkeypatch.setattr(table2, "operations_a_step", lambda recipe, prepared: 3.2e13)
    monkeypatch.setattr(table2, "read_trial", lambda *arguments: None)
    monkeypatch.setattr(table2, "run_trial", lambda trial, work, steps, *rest: budgets.update({trial.name: steps}))
    monkeypatch.setattr(table2, "read_parallel_text", lambda corpus: SimpleNamespace(source=["a"], target=["a"]))
    monkeypatch.setattr(table2, "_chains", lambda spec: (1, 1))
    monkeypatch.setattr(table2, "SYSTEMS", [system for system in SYSTEMS if system.name in ("base", "big")])
    comparison = table2.run_table2(at, ["base", "big"], at.minutes, tmp_path, None, print)
    assert {name: [(each.steps, each.minutes) for each in steps] for name, steps in budgets.items()} == {
        "base": [(100_000, None)],
        "big": [(300_000, None)],
    }
    trainings = {row.system.name: row.trial.recipe.training for row in comparison.rows}
    assert (trainings["base"].average, trainings["big"].average, trainings["big"].save_every) == (5, 20, 595)
    text = printed.as_text(comparison)
    assert "BLEU at the steps of its preset" in text
    assert "equal arithmetic" not in text.lower()
    assert "equal time" not in text.lower()


def test_the_papers_french_pair_has_its_own_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    (tmp_path / "wmt14-en-fr").mkdir()
    at, recipes = scale_named("paper-en-fr"), {}
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
    comparison = table2.SystemComparison(
        at,
        [table2.SystemResult(system, None, None, (1, 1), None) for system in SYSTEMS],
        Score(0.5, "", None, None),
        None,
    )
    text = printed.as_text(comparison)
    assert "| Transformer (big): 41.8 |" in text
    assert "| ByteNet |\n" in text  # without a figure of the paper for this pair
    result = invoke("table3", "--scale", "paper-en-fr", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--scale paper-en-fr: only Table 2 has that pair" in result.stderr


def test_the_small_scale_needs_no_files(monkeypatch):
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    at = scale_named("small")
    assert at.corpus == "the embedded corpus, 40,000 pairs, 4,000 subwords"
    assert at.corpus_named("test").embedded == "test"


def test_results_are_written_with_their_provenance(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda options: _result("table1"))
    result = invoke("table1", "--out", tmp_path, "--work", tmp_path / "work")
    assert result.exit_code == 0
    text = (tmp_path / "table1.md").read_text("utf-8")
    assert text == result.stdout.removesuffix("\n")
    assert re.search(r"`transduce.*`, transduce \d.*, torch .*; this call took 0\.0 minutes\.", text, re.DOTALL)
    assert (tmp_path / "table1.json").read_text("utf-8") == "[\n 1,\n 2\n]\n"


def test_all_writes_one_page_without_network_requests(tmp_path, monkeypatch):
    for name in EXPERIMENTS:
        monkeypatch.setitem(EXPERIMENTS, name, lambda options, name=name: _result(name))
    result = invoke("all", "--out", tmp_path, "--work", tmp_path / "work")
    assert result.exit_code == 0
    assert f"all tables on one page: {tmp_path / 'all.html'}" in result.stderr
    text = (tmp_path / "all.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == list(EXPERIMENTS)
    assert text.count("<svg") == len(EXPERIMENTS)
    assert "<th>a &lt; b</th>" in text
    assert "<td><code>c</code></td><td>1</td><td></td>" in text
    assert not re.findall(r'(?:src|href)="(?!#)', text)


def test_a_page_has_the_tables_that_exist(tmp_path):
    _result("scaling").write(tmp_path, torch.device("cpu"), 1.0)
    text = page.write_page(tmp_path).read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == ["scaling"]


def test_a_page_has_the_readmes_section_on_each_table(tmp_path):
    _result("scaling").write(tmp_path, torch.device("cpu"), 1.0)
    readme = "# Results\n\nMade here.\n\n## [Scaling](scaling.md): why\n\nIt **holds**, see [there](../a.md).\n"
    (tmp_path / "README.md").write_text(f"{readme}\n## [Table 1](table1.md)\n\nNot here.\n", "utf-8")
    text = page.write_page(tmp_path).read_text("utf-8")
    assert text.index("<p>Made here.</p>") < text.index('<section id="scaling">')
    assert text.index("<h1>What") < text.index("<p>It <strong>holds</strong>, see there.</p>") < text.index("<svg")
    assert "Not here" not in text


def test_records_are_collected_after_an_error(tmp_path, monkeypatch):
    def fail(options):
        record.add_record(options.folder("table3"), record.Record("base-1", {}, {"bleu": 9.5}))
        raise ValueError("failed")

    monkeypatch.setitem(EXPERIMENTS, "table3", fail)
    assert invoke("table3", "--work", tmp_path / "here", "--out", tmp_path / "out").exit_code == 2
    (line,) = (tmp_path / "out" / "trainings.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {"folder": "table3-small", "trial": "base-1", "recipe": {}, "found": {"bleu": 9.5}}
    monkeypatch.setitem(EXPERIMENTS, "table3", lambda options: _result("table3"))
    assert invoke("table3", "--work", tmp_path / "other", "--out", tmp_path / "out").exit_code == 0
    records = record.read_records(tmp_path / "other" / "table3-small", "base-1")
    assert records == [record.Record("base-1", {}, {"bleu": 9.5})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1 is damaged"),
        (b"\xff", "line 1 is damaged"),
        (b"[]", "line 1 does not have the keys folder, trial, recipe, found"),
        (b'\n{"folder": "a", "trial": "b", "recipe": 1, "found": null}', "line 2 does not have the keys"),
        (b'{"folder": "../a", "trial": "b", "recipe": 1, "found": {}}', "'../a' is no folder of trainings"),
        (b'{"folder": "/a", "trial": "b", "recipe": 1, "found": {}}', "'/a' is no folder of trainings"),
        (b'{"folder": "a/b/c", "trial": "b", "recipe": 1, "found": {}}', "'a/b/c' is no folder of trainings"),
        (b'{"folder": 1, "trial": "b", "recipe": 1, "found": {}}', "line 1: folder and trial must be strings"),
        (b'{"folder": "a", "trial": "b", "recipe": "\\ud800", "found": {}}', "line 1: `recipe`"),
        (b"[" * 100_000, "line 1 is damaged"),
    ],
)
def test_a_damaged_record_is_an_error(content, message, tmp_path):
    (tmp_path / "trainings.jsonl").write_bytes(content)
    result = invoke("table1", "--work", tmp_path / "work", "--out", tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_page_is_made_beside_any_readme(tmp_path):
    _result("scaling").write(tmp_path, torch.device("cpu"), 1.0)
    (tmp_path / "README.md").write_text("# Another\n\n![logo](logo.png)\n", "utf-8")
    assert "Another" not in page.write_page(tmp_path).read_text("utf-8")
    (tmp_path / "README.md").write_text("# Mine\n\n![logo](logo.png)\n\n## [S](scaling.md)\n\n![x](no.svg)\n", "utf-8")
    assert "<h1>Mine</h1>" in page.write_page(tmp_path).read_text("utf-8")


def test_rows_are_selected(tmp_path):
    options = experiments.ExperimentOptions(
        "small", ("base",), 1, None, tmp_path, 1, experiments.TrainOptions("cpu", 1), print
    )
    assert options.select_rows(["base", "big"]) == ["base"]
    assert options._replace(rows=()).select_rows(["base", "big"]) == ["base", "big"]
    assert options.folder("table2") == tmp_path / "table2-small"


def _result(name):
    def draw(path):
        path.write_text('<?xml version="1.0"?><svg xmlns="a"></svg>', "utf-8")

    return ExperimentResult(
        name, "What <it> is", "| a < b | d | e |\n| --- | --- | --- |\n| `c` | 1 |  |\n\nA sentence.", [1, 2], draw
    )
