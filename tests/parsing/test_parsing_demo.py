"""The demo of parsing on two hundred trees for half a second."""

import itertools
import re
import shlex

import pytest

from log_records import logged_lines
from parsing_run import run
from transduce.commands import main
from transduce.demo import PARSING, demo_parsing
from transduce.embedded import splits
from transduce.parsing.trees import parse_tree, words_of
from transduce.run.train import TrainOptions

SIZES = {"train": 200, "validation": 4, "test": 8, "novel": 7}


@pytest.fixture
def small(monkeypatch):
    """Small splits of one draw, and a small model."""
    drawn = iter(splits.split("test", count=220))
    parts = {name: list(itertools.islice(drawn, size)) for name, size in SIZES.items()}
    monkeypatch.setattr("transduce.embedded.split", parts.__getitem__)
    size = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 32}
    monkeypatch.setitem(PARSING, "model", {**PARSING["model"], **size})
    monkeypatch.setitem(PARSING, "subwords", {**PARSING["subwords"], "size": 300})
    return parts


def test_the_demo_prints_scores_trees_a_picture_and_a_command(tmp_path, small):
    out = tmp_path / "demo"
    with logged_lines() as printed:
        results = demo_parsing(out, 0.02, TrainOptions("cpu"))
    text = "\n".join(printed)
    assert printed[0] == f"training for 0.02 minutes on 40,000 embedded trees, into {out}"
    assert {name: result.totals.sentences for name, result in results.items()} == {"test": 8, "novel": 7}
    figures = [f"{results[name].f1:.2f}" for name in ("test", "novel")]
    assert re.search(rf"^F1 +{figures[0]} +{figures[1]}$", text, flags=re.MULTILINE)
    assert len([line for line in printed if line.startswith("  (")]) == 3
    assert f"picture of a tree: {out / 'tree.html'}" in printed
    assert "<svg" in (out / "tree.html").read_text("utf-8")
    echo, sentence, pipe, program, verb, *options, directory = shlex.split(printed[-1])
    assert (echo, pipe, program, verb, options) == ("echo", "|", "transduce", "parse", ["--tokenised"])
    assert sentence == " ".join(words_of(parse_tree(small["test"][0].tree)))
    parsed = run("parse", *options, directory, given=f"{sentence}\n")
    assert parsed.exit_code == 0, parsed.output


def test_the_command_chooses_the_task(tmp_path, monkeypatch):
    passed = []
    monkeypatch.setattr("transduce.demo.demo_parsing", lambda *arguments: passed.extend(arguments[:3]))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main(["demo", "parsing"])
    assert leaving.value.code == 0
    assert [str(passed[0]), passed[1]] == ["runs/demo-parsing", 3.0]
