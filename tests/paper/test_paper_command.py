"""`transduce paper`: what it writes, what it refuses, and the page of all results."""

import re

import pytest
import torch
from typer.testing import CliRunner

from transduce.commands import app
from transduce.paper import experiments, page
from transduce.paper.experiments import EXPERIMENTS, Result
from transduce.paper.scales import scale


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


def test_the_small_scale_needs_nothing(monkeypatch):
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)
    at = scale("small")
    assert at.corpus == "the embedded corpus, 40,000 pairs, 4,000 subwords"
    assert at.corpus_named("test").embedded == "test"


def test_results_are_written_with_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda asked: _result("table1"))
    result = invoke("table1", "--out", tmp_path)
    assert result.exit_code == 0
    text = (tmp_path / "table1.md").read_text("utf-8")
    assert text == result.stdout.removesuffix("\n")
    assert re.search(r"`transduce.*`, transduce \d.*, torch .*; this call took 0\.0 minutes\.", text, re.DOTALL)
    assert (tmp_path / "table1.json").read_text("utf-8") == "[\n 1,\n 2\n]\n"


def test_all_is_one_page_that_asks_nothing_of_the_network(tmp_path, monkeypatch):
    for name in EXPERIMENTS:
        monkeypatch.setitem(EXPERIMENTS, name, lambda asked, name=name: _result(name))
    result = invoke("all", "--out", tmp_path)
    assert result.exit_code == 0
    assert f"all of it on one page: {tmp_path / 'all.html'}" in result.stderr
    text = (tmp_path / "all.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == list(EXPERIMENTS)
    assert text.count("<svg") == len(EXPERIMENTS)
    assert "<th>a &lt; b</th>" in text
    assert "<td><code>c</code></td>" in text
    assert not re.findall(r'(?:src|href)="(?!#)', text)


def test_a_page_has_what_there_is(tmp_path):
    _result("scaling").write(tmp_path, torch.device("cpu"), 1.0)
    text = page.write_page(tmp_path).read_text("utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == ["scaling"]


def test_experiments_know_their_rows(tmp_path):
    asked = experiments.Asked("small", ("base",), 1, None, tmp_path, 1, experiments.Options("cpu", 1), print)
    assert asked.chosen(["base", "big"]) == ["base"]
    assert asked._replace(rows=()).chosen(["base", "big"]) == ["base", "big"]
    assert asked.folder("table2") == tmp_path / "table2-small"


def _result(name):
    def draw(path):
        path.write_text('<?xml version="1.0"?><svg xmlns="a"></svg>', "utf-8")

    return Result(name, "What <it> is", "| a < b | d |\n| --- | --- |\n| `c` | 1 |\n\nA sentence.", [1, 2], draw)
