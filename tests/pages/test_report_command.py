"""`transduce report`: the page, the Markdown, and that their figures are those of `evaluate`."""

import json
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_model
from transduce.pages.charts import ChartLine, LineChart
from transduce.pages.report_page import Curve, ModelReport, _curves, _read_metrics, _read_run, report_page


class Balance(HTMLParser):
    """Asserts that tags are closed in their order, and collects addresses."""

    VOID = ("meta", "link", "br", "line", "circle", "polyline")

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def two_runs(trained, tmp_path_factory):
    """The trained run, and a copy that translates greedily."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("one", "two"):
        shutil.copytree(trained, folder / name)
    return folder / "one", folder / "two"


def page_of(path):
    page = Balance()
    page.feed(path.read_text("utf-8"))
    assert page.open == []
    return page


def test_a_run_that_is_called_like_a_preset_has_its_own_parameters(two_runs, tmp_path, monkeypatch):
    shutil.copytree(two_runs[0], tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    assert _read_run(Path("tiny")).parameters == _read_run(two_runs[0]).parameters


def test_the_scores_are_those_of_evaluate(two_runs, tmp_path, command):
    out, card = tmp_path / "report.html", tmp_path / "card.md"
    options = ("--test", "spare", "--bootstrap", 50, "--threads", 1)
    code, _, error = command("report", *two_runs, "--out", out, "--out", card, *options)
    assert code == 0, error
    code, printed, _ = command("evaluate", two_runs[0], "--test", "spare", "--bootstrap", 50, "--json", "--threads", 1)
    scores = json.loads(printed)
    page, text = page_of(out), card.read_text("utf-8")
    for name in ("bleu", "chrf"):
        score = scores[name]
        assert f"{score['score']:.2f} [{score['low']:.2f}, {score['high']:.2f}]" in text
        assert f"{score['score']:.2f} " in page.text
        assert score["signature"] in text
        assert any(score["signature"] in piece for piece in page.text)
    assert text.count("p = 1.0000") == 2  # both runs are the same
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert {"#runs", "#training", "#test-spare", "#settings"} <= set(page.addresses)


def test_a_report_of_one_run_has_all_its_sets_and_no_test_of_pairs(trained, tmp_path, command):
    out = tmp_path / "report.html"
    code, _, error = command("report", trained, "--out", out, "--bootstrap", 20)
    assert code == 0, error
    content = out.read_text("utf-8")
    assert "paired" not in content
    assert {"test-spare", "test-validation"} <= set(re.findall(r'id="([\w-]+)"', content))
    assert content.count('class="attention"') == 3
    assert "inverse_square_root" in content  # the settings
    assert "␊" not in content
    summary = content[content.index('id="summary"') : content.index('id="runs"')]
    assert re.findall(r'<th scope="row">(\w+)</th>', summary) == ["spare", "validation"]
    assert re.search(r"Measured 20\d\d-\d\d-\d\d, \w.*, cpu, float32\.", summary)
    assert "None" not in content[content.index('id="runs"') : content.index('id="training"')]
    links, ids = set(re.findall(r'href="#([\w-]+)"', content)), set(re.findall(r'id="([\w-]+)"', content))
    assert {"runs", "training", "attention", "settings"} <= links <= ids
    assert re.search(r'<td style="--weight:0\.\d\d" title="(0\.\d\d)"><span>\1</span></td>', content)


def test_sets_without_files_are_left_out_and_said(trained, tmp_path, command, monkeypatch):
    monkeypatch.setattr(Path, "exists", _exists_unless_test)
    code, _, error = command("report", trained, "--out", tmp_path / "page.html", "--bootstrap", 20)
    assert (code, "left out, because files are missing: spare" in error) == (0, True), error
    assert "test-validation" in (tmp_path / "page.html").read_text("utf-8")


def _exists_unless_test(path):
    return path.name != "test.en" and os.path.exists(path)  # noqa: PTH110 - `Path.exists` is replaced by this function


def test_a_model_without_a_recipe_is_reported_without_test_sets(trained, tmp_path, command):
    imported = shutil.copytree(trained, tmp_path / "caf\udce9")
    (imported / "recipe.yaml").unlink()
    markdown = tmp_path / "card.md"
    code, _, error = command("report", imported, "--out", tmp_path / "page.html", "--out", markdown)
    assert (code, "has no recipe.yaml, which names test sets; name a run with one first" in error) == (0, True), error
    assert "## Scores" not in markdown.read_text("utf-8")
    assert "| caf? |" in markdown.read_text("utf-8")
    content = (tmp_path / "page.html").read_text("utf-8")
    links = set(re.findall(r'href="#([\w-]+)"', content))
    assert "attention" not in links <= set(re.findall(r'id="([\w-]+)"', content))
    code, _, error = command("report", imported, "--out", tmp_path / "again.html", "--test", "spare")
    assert (code, "has no recipe.yaml, as an imported model" in error) == (2, True), error


def test_a_run_of_another_direction_is_refused(trained, tmp_path, command):
    other = shutil.copytree(trained, tmp_path / "other")
    model = Model.read(other)
    config = model.config.model_copy(update={"source_language": "de", "target_language": "en"})
    write_model(other, config, weights_of(model.module), (model.source, model.target), {})
    code, _, error = command("report", trained, other, "--out", tmp_path / "page.html")
    assert (code, "other translates de-en, and the test set spare en-de: choose test sets" in error) == (2, True), error


def test_wrong_input_is_refused_before_anything_is_translated(trained, tmp_path, command):
    there = tmp_path / "there.html"
    there.write_text("mine")
    for arguments, message in (
        ((trained, "--out", there), "exists"),
        ((trained, "--out", tmp_path / "a.html", "--test", "other"), "names spare, validation"),
        ((tmp_path / "nothing", "--out", tmp_path / "a.html"), "nothing"),
        ((trained, "--out", tmp_path / "a.html", "--bootstrap", 1), "bootstrap"),
    ):
        code, _, error = command("report", *arguments)
        assert (code, message in error) == (2, True), error
    assert there.read_text() == "mine"
    assert not (tmp_path / "a.html").exists()


def test_half_lines_and_foreign_lines_of_a_metrics_log_are_left_out(tmp_path):
    lines = [
        '{"step": 1, "loss": 5.5}',
        '{"step": 2, "bleu": 3.5}',
        "[1]",
        '{"step": 3, "test": "x", "bleu": 9}',
        '{"st',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert _curves(_read_metrics(tmp_path / "metrics.jsonl")) == {
        "loss": Curve((1,), (5.5,)),
        "bleu": Curve((2,), (3.5,)),
    }
    assert _read_metrics(tmp_path / "none.jsonl") == []


def test_a_curve_has_one_value_a_step():
    """Of the last weights and their average the last weights; of steps that were taken again the later ones."""
    diverged = [{"step": 4, "loss": 9.0}, {"step": 4, "bleu": 1.0}, {"step": 5, "loss": 9.5}, {"step": 5, "event": ""}]
    records = [
        {"step": 2, "loss": 5.0},
        {"step": 2, "bleu": 3.0},
        *diverged,  # after which the training goes back to step 2
        {"step": 4, "loss": 4.0},
        {"step": 4, "bleu": 5.0},
        {"step": 4, "bleu": 7.0},
    ]
    assert _curves(records) == {"loss": Curve((2, 4), (5.0, 4.0)), "bleu": Curve((2, 4), (3.0, 5.0))}


def test_the_axes_of_a_chart_enclose_its_values():
    chart = LineChart("loss", "steps", [ChartLine("run0", (100, 900), (2.31, 7.98)), ChartLine("run1", (500,), (4.0,))])
    assert chart.y_axis.ticks == (2, 4, 6, 8)
    assert 10 <= chart.y_axis.place(7.98) < chart.y_axis.place(2.31) <= 206  # upwards
    assert 46 <= chart.x_axis.place(100) < chart.x_axis.place(900) <= 510


def test_a_single_value_is_drawn_as_a_point_and_a_constant_as_a_line(trained):
    """In the report, whose template draws the charts."""
    run = _read_run(trained)
    curves = {"loss": Curve((1, 2), (0.0, 0.0)), "bleu": Curve((5,), (4.0,))}
    page = report_page(ModelReport([run._replace(curves=curves, reliability=None)], [], [], "today"))
    assert page.count("<polyline") == 1
    assert page.count("<circle") == 1
