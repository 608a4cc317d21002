"""`transduce paper`: the files that it writes, its error messages, and the page of all results."""

import json
import re
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from transduce.commands import app
from transduce.measure.scoring import Score
from transduce.paper import all_results, finished_runs, table2
from transduce.paper.experiment_scales import ExperimentOptions, scale_named
from transduce.paper.experiments import EXPERIMENTS, ExperimentDefinition
from transduce.paper.system_presets import SYSTEMS
from transduce.run.train import TrainOptions


def invoke(*arguments):
    return CliRunner().invoke(app, ["paper", *map(str, arguments)])


@pytest.mark.parametrize("experiment", ["table2", "table3", "scaling", "distance"])
def test_an_unknown_row_is_an_error_with_the_known_rows(experiment, tmp_path):
    result = invoke(experiment, "--run", "--row", "lstmm", "--work", tmp_path / "work", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--row lstmm: choose " in result.stderr


def test_the_papers_scale_needs_the_papers_corpus(tmp_path, monkeypatch):
    for values, message in (({}, "set TRANSDUCE_DATA"), ({"TRANSDUCE_DATA": str(tmp_path)}, "there is no")):
        monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
        for name, value in values.items():
            monkeypatch.setenv(name, value)
        result = invoke("table3", "--run", "--scale", "paper", "--work", tmp_path / "work", "--out", tmp_path / "out")
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
    budgets, trainings = {}, {}
    prepared = SimpleNamespace()
    monkeypatch.setattr(table2, "shared_store", lambda *arguments: prepared)
    monkeypatch.setattr(table2, "operations_a_step", lambda *arguments: 3.2e13)
    monkeypatch.setattr(table2, "read_trial", lambda *arguments: None)

    def run_trial(trial, work, steps, *rest):
        budgets[trial.name], trainings[trial.name] = steps, trial.recipe.training

    monkeypatch.setattr(table2, "run_trial", run_trial)
    monkeypatch.setattr(table2, "read_parallel_text", lambda corpus: SimpleNamespace(source=["a"], target=["a"]))
    monkeypatch.setattr(table2, "_chains", lambda spec: (1, 1))
    monkeypatch.setattr(table2, "SYSTEMS", [system for system in SYSTEMS if system.name in ("base", "big")])
    options = ExperimentOptions(name, ("base", "big"), 1, None, tmp_path, 1, TrainOptions())
    _, comparison = table2.run_table2(options)
    assert {name: [(each.steps, each.minutes) for each in steps] for name, steps in budgets.items()} == {
        "base": [(100_000, None)],
        "big": [(300_000, None)],
    }
    assert (trainings["base"].average, trainings["big"].average, trainings["big"].save_every) == (5, 20, 595)
    text = table2.as_text(comparison)
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
    rows = [table2.SystemResult(system.name, None, None, (1, 1)) for system in SYSTEMS]
    copying = Score(0.5, "", None, None)
    comparison = table2.SystemComparison(at.name, at.pair, at.operations, rows, copying, None)
    text = table2.as_text(comparison)
    assert "| Transformer (big): 41.8 |" in text
    assert "| ByteNet |\n" in text  # without a figure of the paper for this pair
    result = invoke("table3", "--run", "--scale", "paper-en-fr", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "--scale paper-en-fr: only Table 2 has that pair" in result.stderr


def test_the_small_scale_needs_no_files(monkeypatch):
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    at = scale_named("small")
    assert at.corpus == "the embedded corpus, 40,000 pairs, 4,000 subwords"
    assert at.corpus_named("test").embedded == "test"


class Recall(NamedTuple):
    shares: dict[int, float]


def define(monkeypatch, *names, run=lambda options: ("a corpus", [Recall({4: 1.0})])):
    """Replaces experiments by ones that take no time."""

    def draw(results, path):
        path.write_text('<?xml version="1.0"?><svg xmlns="a"></svg>', "utf-8")

    def as_text(results):
        return f"| a < b | d | e |\n| --- | --- | --- |\n| `c` | {results[0].shares[4]:.0f} |  |\n\nA sentence."

    for name in names:
        definition = ExperimentDefinition("What <it> is ({corpus})", list[Recall], run, as_text, draw)
        monkeypatch.setitem(EXPERIMENTS, name, definition)


def test_results_are_written_with_their_provenance_and_printed_again(tmp_path, monkeypatch):
    define(monkeypatch, "table1")
    result = invoke("table1", "--run", "--out", tmp_path, "--work", tmp_path / "work")
    assert result.exit_code == 0
    text = (tmp_path / "table1.md").read_text("utf-8")
    assert text == result.stdout.removesuffix("\n")
    assert text.startswith("# What <it> is (a corpus)\n\n![What <it> is (a corpus)](table1.svg)\n\n| a < b |")
    assert re.search(r"`transduce.*`, transduce \d.*, torch .*; this call took 0\.0 minutes\.", text, re.DOTALL)
    content = (tmp_path / "table1.json").read_text("utf-8")
    assert json.loads(content)["results"] == [{"shares": {"4": 1.0}}]
    (tmp_path / "table1.md").unlink()
    define(monkeypatch, "table1", run=None)
    again = invoke("table1", "--out", tmp_path)
    assert again.stdout == result.stdout
    assert (tmp_path / "table1.md").read_text("utf-8") == text
    assert (tmp_path / "table1.json").read_text("utf-8") == content


@pytest.mark.parametrize("experiment", [*EXPERIMENTS, "all"])
def test_without_results_nothing_is_run(experiment, tmp_path):
    result = invoke(experiment, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "there are no results in " in result.stderr
    assert "add --run" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"[", "the file: Invalid JSON"),
        (b"[1]", "0: "),
        (b"{}", "corpus: "),
        (b'{"corpus": "", "provenance": 1, "results": []}', "provenance: "),
        (
            b'{"corpus": "", "results": [{"shares": {"4": "x"}}], "provenance": '
            b'{"command": "", "program": "", "torch": "", "machine": "", "day": "", "minutes": 1}}',
            "0.shares.4: ",
        ),
    ],
)
def test_a_damaged_results_file_is_an_error(content, fault, tmp_path, monkeypatch):
    define(monkeypatch, "table1")
    (tmp_path / "table1.json").write_bytes(content)
    result = invoke("table1", "--out", tmp_path)
    assert result.exit_code == 2
    assert f"table1.json is damaged or of another version ({fault}" in result.stderr


@pytest.mark.parametrize(
    ("experiment", "option"),
    [
        ("table2", "--scale=paper"),
        ("table3", "--row=base"),
        ("table4", "--seeds=2"),
        ("scaling", "--minutes=1"),
        ("distance", "--work=a"),
        ("all", "--device=cpu"),
    ],
)
def test_an_option_of_runs_needs_run(experiment, option, tmp_path):
    result = invoke(experiment, option, "--threads=1", "--out", tmp_path)
    assert result.exit_code == 2
    assert f"{option.partition('=')[0]}, --threads: without --run nothing is trained or measured" in result.stderr


def test_all_writes_one_page_without_network_requests(tmp_path, monkeypatch):
    define(monkeypatch, *EXPERIMENTS)
    result = invoke("all", "--run", "--out", tmp_path, "--work", tmp_path / "work")
    assert result.exit_code == 0
    assert f"all tables on one page: {tmp_path / 'all.html'}" in result.stderr
    text = (tmp_path / "all.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == list(EXPERIMENTS)
    assert text.count("<svg") == len(EXPERIMENTS)
    assert "<th>a &lt; b</th>" in text
    assert "<td><code>c</code></td><td>1</td><td></td>" in text
    assert not re.findall(r'(?:src|href)="(?!#)', text)


@pytest.fixture
def scaling(tmp_path, monkeypatch):
    """Returns a folder with the results of one experiment."""
    define(monkeypatch, "scaling")
    assert invoke("scaling", "--run", "--out", tmp_path, "--work", tmp_path / "work").exit_code == 0
    return tmp_path


def test_all_prints_the_experiments_that_have_results(scaling):
    result = invoke("all", "--out", scaling)
    assert result.exit_code == 0
    assert re.findall(r'<section id="(\w+)">', (scaling / "all.html").read_text("utf-8")) == ["scaling"]


def test_a_page_has_the_readmes_section_on_each_table(scaling):
    readme = "# Results\n\nMade here.\n\n## [Scaling](scaling.md): why\n\nIt **holds**, see [there](../a.md).\n"
    (scaling / "README.md").write_text(f"{readme}\n## [Table 1](table1.md)\n\nNot here.\n", "utf-8")
    text = all_results.write_page(scaling).read_text("utf-8")
    assert text.index("<p>Made here.</p>") < text.index('<section id="scaling">')
    assert text.index("<h1>What") < text.index("<p>It <strong>holds</strong>, see there.</p>") < text.index("<svg")
    assert "Not here" not in text


def test_records_are_collected_after_an_error(tmp_path, monkeypatch):
    def fail(options):
        finished_runs.add_record(options.work, finished_runs.Record("base-1", {}, {"bleu": 9.5}))
        raise ValueError("failed")

    define(monkeypatch, "table3", run=fail)
    assert invoke("table3", "--run", "--work", tmp_path / "here", "--out", tmp_path / "out").exit_code == 2
    (line,) = (tmp_path / "out" / "trainings.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line) == {"folder": "table3-small", "trial": "base-1", "recipe": {}, "found": {"bleu": 9.5}}
    define(monkeypatch, "table3")
    assert invoke("table3", "--run", "--work", tmp_path / "other", "--out", tmp_path / "out").exit_code == 0
    records = finished_runs.read_records(tmp_path / "other" / "table3-small", "base-1")
    assert records == [finished_runs.Record("base-1", {}, {"bleu": 9.5})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1 is damaged"),
        (b"\xff", "line 1 is damaged"),
        (b"[]", "line 1 does not have the keys folder, trial, recipe, found"),
        (b'\n{"folder": "a", "trial": "b", "recipe": 1, "found": null}', "line 2 does not have the keys"),
        (b'{"folder": "../a", "trial": "b", "recipe": 1, "found": {}}', "'../a' is not a folder of trainings"),
        (b'{"folder": "/a", "trial": "b", "recipe": 1, "found": {}}', "'/a' is not a folder of trainings"),
        (b'{"folder": "a/b/c", "trial": "b", "recipe": 1, "found": {}}', "'a/b/c' is not a folder of trainings"),
        (b'{"folder": 1, "trial": "b", "recipe": 1, "found": {}}', "line 1: folder and trial must be strings"),
        (b'{"folder": "a", "trial": "b", "recipe": "\\ud800", "found": {}}', "line 1: `recipe`"),
        (b"[" * 100_000, "line 1 is damaged"),
    ],
)
def test_a_damaged_record_is_an_error(content, message, tmp_path):
    (tmp_path / "trainings.jsonl").write_bytes(content)
    result = invoke("table1", "--run", "--work", tmp_path / "work", "--out", tmp_path)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_page_is_made_beside_any_readme(scaling):
    (scaling / "README.md").write_text("# Another\n\n![logo](logo.png)\n", "utf-8")
    assert "Another" not in all_results.write_page(scaling).read_text("utf-8")
    (scaling / "README.md").write_text("# Mine\n\n![logo](logo.png)\n\n## [S](scaling.md)\n\n![x](no.svg)\n", "utf-8")
    assert "<h1>Mine</h1>" in all_results.write_page(scaling).read_text("utf-8")


def test_rows_are_selected(tmp_path):
    options = ExperimentOptions("small", ("base",), 1, None, tmp_path, 1, TrainOptions("cpu", 1))
    assert options.select_rows(["base", "big"]) == ["base"]
    assert options._replace(rows=()).select_rows(["base", "big"]) == ["base", "big"]
