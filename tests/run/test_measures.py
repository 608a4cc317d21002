"""What compares validations: any metric of `measure`, a program, a Python function; of equal scores the loss."""

import json
import shlex
import sys

import pytest

from transduce.evaluation.validation import ValidationResult, ValidationScore
from transduce.measure.metric_choice import ProgramMetric
from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.recipe.starting_point import StartingPoint
from transduce.run.publishing import score_of
from transduce.run.train import train

SETTINGS = ["training.steps=4", "training.validate_every=2", "training.save_every=4", "training.average=null"]
LENGTH = (
    "import sys; lines = [open(name).read() for name in sys.argv[1:]]; print('mean:', len(lines[1]) / len(lines[2]))"
)


def program(code, files="{sources} {translations} {references}"):
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {files}"


def scores_of(micro, out, measure, **options):
    recipe = load(micro / "recipe.yaml", [*SETTINGS, f"training.validate_by={json.dumps(measure)}"])
    list(train(recipe, out, device="cpu", **options))
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [record for record in records if "validation_loss" in record]


@pytest.mark.parametrize("metric", ["chrf", "ter"])
def test_metrics_of_measure_select_weights(micro, tmp_path, metric):
    first, last = scores_of(micro, tmp_path, metric)
    assert "nrefs:1" in first["signature"]
    better = min if metric == "ter" else max
    expected = 2 if better(first[metric], last[metric]) == first[metric] != last[metric] else 4
    assert Model.read_config(tmp_path).weights.steps == (expected,)


def test_a_program_selects_weights(micro, tmp_path):
    measure = {"command": program(LENGTH), "best": "lowest"}
    first, last = scores_of(micro, tmp_path, measure)
    assert first["signature"] == measure["command"]
    assert Model.read_config(tmp_path).weights.steps == (4 if last["score"] <= first["score"] else 2,)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (program("print('no score')"), "must print the score last, and the last word is 'score'"),
        (program("print(float('nan'))"), "printed nan, which is not a score"),
        (program("pass"), "the last word is 'nothing'"),
        (program("import sys; sys.exit('lacks a model')"), "ended with code 1: lacks a model"),
        ("no-such-program {translations}", "cannot start `no-such-program`"),
        (program("print(1)", "{sources}"), "write {translations} where the program takes the file"),
        ("comet 'open {translations}", "close the quotation mark"),
    ],
)
def test_a_program_that_gives_no_score_is_refused_at_the_start(micro, tmp_path, command, message):
    with pytest.raises(ValueError, match=message.replace("{", r"\{").replace("}", r"\}")):
        scores_of(micro, tmp_path, {"command": command})
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_metric_that_fails_later_leaves_the_training_alone(micro, tmp_path, log_lines):
    calls = []

    def fails_later(sources, translations, references):
        calls.append(translations)
        if len(calls) == 2:
            raise OSError("the licence server sleeps")
        return 7

    first, last = scores_of(micro, tmp_path, "bleu", metric=fails_later)
    assert "score" not in first
    assert last["score"] == 7
    assert "warning: this validation has no score: the licence server sleeps" in log_lines
    assert Model.read_config(tmp_path).weights.steps == (4,)


def test_a_function_must_return_a_number(micro, tmp_path):
    with pytest.raises(ValueError, match="the metric <lambda> must return a number, and returned 'good'"):
        scores_of(micro, tmp_path, "bleu", metric=lambda *texts: "good")


def test_less_is_better_for_errors_and_losses():
    result = ValidationResult(2.0, 7.4, 0.5, ValidationScore("x", 30.0, "signature"), [])
    lowest, highest = (ProgramMetric(command="x {translations}", best=best) for best in ("lowest", "highest"))
    by = {"chrf": 30.0, "ter": -30.0, "loss": -2.0, highest: 30.0, lowest: -30.0}
    assert {measure: score_of(result, measure) for measure in by} == by


def test_bleu_that_cannot_move_is_named(micro, tmp_path, log_lines):
    (tmp_path / "short.en").write_text("ant bee\nowl\n")
    (tmp_path / "short.de").write_text("tna eeb\nlwo\n")
    short = json.dumps({"source": str(tmp_path / "short.en"), "target": str(tmp_path / "short.de")})
    for changes, is_named in (([f"data.validation={short}"], True), ([], False)):
        log_lines.clear()
        recipe = load(micro / "recipe.yaml", [*SETTINGS, "training.steps=1", *changes])
        list(train(recipe, tmp_path / f"run{is_named}", device="cpu"))
        assert any("BLEU is 0 for every output, and the loss selects" in line for line in log_lines) == is_named


def test_a_fine_tuning_starts_no_program_of_another_recipe(micro, tmp_path):
    scores_of(micro, tmp_path / "run", {"command": program(LENGTH)})
    values = StartingPoint.of(tmp_path / "run").resolve({"data": {"train": {"embedded": "train"}}}, place="here")
    assert values["training"]["validate_by"] == "bleu"
