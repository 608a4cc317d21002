"""A model of both directions, trained in seconds: every command translates each, and the tag decides which."""

import importlib
import json
import random
import re
from pathlib import Path

import anyio
import httpx
import pytest
from typer.testing import CliRunner

from micro_run import forked
from transduce import Translator
from transduce.commands import app
from transduce.embedded import split
from transduce.model_directory.model import Model
from transduce.recipe.recipe import Recipe
from transduce.run.train import train
from transduce.serving.application import create_application
from transduce.serving.language_names import LanguageDetector
from transduce.serving.limits import ApiKeys, Limits
from transduce.serving.request_log import Metrics
from transduce.serving.server import load_models
from transduce.serving.service import Service
from transduce.translation.alignment import aligned_words

RECIPE = """
data:
  train: {tsv: pairs.tsv, direction: both}
  validation: {tsv: pairs.tsv, direction: both}
  test: {seen: {tsv: pairs.tsv, direction: both}}
  source_language: en
  target_language: de
subwords: {size: 500}
model:
  preset: tiny
  initialisation: fused-glorot
  d_model: 32
  encoder_layers: 1
  decoder_layers: 1
  mixer: {heads: 2, d_k: 16, d_v: 16}
  cross: {heads: 2, d_k: 16, d_v: 16}
  feed_forward: {d_ff: 64}
  dropout: 0.0
training:
  steps: 200
  batch_tokens: 1024
  micro_batches: 1
  precision: float32
  label_smoothing: 0.0
  schedule: {kind: inverse_square_root, warmup: 30, peak: 0.01}
  validate_every: 100
  save_every: 100
  log_every: 100
  average: null
decoding: {beam: 2, extra_length: 5}
"""
SHORT = ["--set", "training.steps=3", "--set", "training.validate_every=3", "--set", "training.save_every=1"]


def run(*arguments, code=0):
    """Runs a command and returns its result."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (arguments, result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("directions")
    pairs = sorted({(one.source, one.target) for one in split("train") if len(one.source.split()) <= 7})
    random.Random(1).shuffle(pairs)
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs[:60]), "utf-8")
    for place, name in enumerate(("lines.en", "lines.de")):
        (folder / name).write_text("".join(f"{pair[place]}\n" for pair in pairs[:20]), "utf-8")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def both(folder) -> Path:
    """The run directory of a model that has learned 60 sentences in both directions."""
    ended = forked("train", folder / "recipe.yaml", "--out", folder / "both")
    assert ended.code == 0, ended.error
    assert "en-de: 60 pairs, 50.0% of an epoch" in ended.error
    return folder / "both"


def share_of_equal(left, right):
    return sum(a == b for a, b in zip(left.splitlines(), right.splitlines(), strict=True)) / 20


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("de", "en")])
def test_each_direction_is_translated_and_the_tag_decides(both, folder, source, target):
    text, reference = folder / f"lines.{source}", (folder / f"lines.{target}").read_text("utf-8")
    plain = run("translate", both, text, "--to", target)
    assert plain.stderr == ""
    assert share_of_equal(plain.stdout, reference) >= 0.8
    other = run("translate", both, text, "--to", source)
    assert share_of_equal(other.stdout, reference) <= 0.4
    for verb, *options in (
        ["translate", "--precision", "int8", "--device", "cpu"],
        ["translate-corpus", "--out", folder / f"out.{target}"],
    ):
        result = run(verb, both, text, "--to", target, "--greedy", *options)
        written = result.stdout or (folder / f"out.{target}").read_text("utf-8")
        assert share_of_equal(written, reference) >= 0.8


def test_score_evaluate_and_json_are_told_the_direction(both, folder):
    texts = ["--source", folder / "lines.en", "--target", folder / "lines.de"]
    right, wrong = (run("score", both, *texts, "--to", to).stdout.split() for to in ("de", "en"))
    assert all(float(good) > float(bad) for good, bad in zip(right, wrong, strict=True))
    report = json.loads(run("evaluate", both, "--test", "seen-de-en", "--json").stdout)
    assert report["target_language"] == "en"
    assert report["bleu"]["score"] > 80
    files = ["--source", folder / "lines.de", "--reference", folder / "lines.en"]
    assert json.loads(run("evaluate", both, *files, "--to", "en", "--json").stdout)["bleu"]["score"] > 80
    record = json.loads(run("translate", both, folder / "lines.en", "--to", "de", "--json").stdout.splitlines()[0])
    assert record["target_language"] == "de"


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("name one with --to, or `to` in Python: de, en", ["translate", "lines.en"]),
        ("target language fr: .* it writes de, en", ["translate", "lines.en", "--to", "fr"]),
        (
            "source language fr: .* its languages: de, en",
            ["translate-document", "lines.en", "--to", "de", "--from", "fr"],
        ),
        ("--to de: it is recorded with the test set", ["evaluate", "--test", "seen-en-de", "--to", "de"]),
        ("names seen-en-de, seen-de-en, validation-en-de, validation-de-en", ["evaluate", "--test", "seen"]),
    ],
)
def test_what_is_missing_or_unknown_ends_with_2_and_the_list(both, folder, message, arguments, monkeypatch):
    monkeypatch.chdir(folder)
    command, *others = arguments
    assert re.search(message, run(command, both, *others, code=2).stderr)


def test_a_direction_that_was_not_trained_is_named_zero_shot(both, folder):
    result = run("translate-document", both, folder / "lines.en", "--to", "en", "--from", "en")
    assert "note: en-en is zero-shot: the model was trained on de-en, en-de" in result.stderr


def test_python_loads_for_one_direction_and_turns_to_another(both, folder):
    german, english = ((folder / f"lines.{name}").read_text("utf-8").splitlines() for name in ("de", "en"))
    into_german = Translator.load(both, both, to="de")
    into_english = into_german.into("en", source_language="de")
    assert sum(str(one) == line for one, line in zip(into_german.translate(english), german, strict=True)) >= 16
    assert sum(str(one) == line for one, line in zip(into_english.translate(german), english, strict=True)) >= 16
    assert into_english.models[0] is into_german.models[0]
    with pytest.raises(ValueError, match="name one with --to"):
        Translator.load(both)


def test_the_metrics_get_the_target_language(both, folder, monkeypatch):
    languages = []
    evaluate = importlib.import_module("transduce.commands.evaluate")
    monkeypatch.setattr(evaluate, "_checked_metrics", lambda metric, language: languages.append(language) or ["bleu"])
    run("evaluate", both, "--source", folder / "lines.de", "--reference", folder / "lines.en", "--to", "en")
    assert languages == ["en"]


def test_models_of_an_ensemble_get_the_same_tags(both):
    translator = Translator.load(both, both, to="de")
    first, second = ((Model.read_config(both).directions[place],) for place in (0, 1))
    translator.configs = tuple(
        config.model_copy(update={"directions": directions})
        for config, directions in zip(translator.configs, (first, second), strict=True)
    )
    with pytest.raises(ValueError, match="other source tags: name the language with --to, the tag with --tag"):
        translator.into()


def test_bench_is_told_the_direction_and_the_tag(both, folder):
    options = ["--data", folder / "lines.de", "--steps", "1", "--to", "en"]
    run("bench", "translate", both, *options)
    assert (
        "tag news: the model was not trained"
        in run("bench", "translate", both, *options, "--tag", "news", code=2).stderr
    )


def test_average_names_a_test_set_that_exists(both, folder):
    result = run("average", both, "--last", "1", "--out", folder / "mean")
    assert f"transduce evaluate {folder / 'mean'} --test validation-de-en" in result.stderr


def test_a_drawing_shows_the_tag_and_an_alignment_does_not_count_it(both, folder):
    translator = Translator.load(both, to="de")
    line = (folder / "lines.en").read_text("utf-8").splitlines()[0]
    explanation = translator.explain(line)
    assert explanation.source[0] == "<to:de>"
    assert explanation.tag_count == 1
    # With all attention on the last word before the full stop.
    last = max(place for place, subword in enumerate(explanation.source) if subword.startswith("▁"))
    cross = explanation.cross[0] * 0.0
    cross[:, :, last] = 1.0
    words = {word for word, _ in aligned_words(explanation._replace(cross=(cross,)))}
    assert words == {len(line.split()) - 1}
    run("draw", both, line, "--to", "de", "--out", folder / "picture.html")
    assert "to:de" in (folder / "picture.html").read_text("utf-8")


def test_the_directory_records_directions_and_validations(both):
    config = Model.read_config(both)
    assert [(str(one), one.pairs) for one in config.directions] == [("en-de", 60), ("de-en", 60)]
    assert (config.source_language, config.target_language) == (None, None)
    card = (both / "README.md").read_text("utf-8")
    assert "# en → de, de → en" in card
    assert "| directions | en-de (60 pairs), de-en (60 pairs) |" in card
    record = json.loads((both / "metrics.jsonl").read_text("utf-8").splitlines()[-1])
    assert record["bleu"] == pytest.approx((record["bleu.en-de"] + record["bleu.de-en"]) / 2)
    losses = [record[f"validation_loss.{name}"] for name in ("en-de", "de-en")]
    assert record["validation_loss"] == pytest.approx(sum(losses) / 2)
    assert record["signature"].startswith("mean:2|nrefs:1")


def test_a_resumed_training_is_bit_identical(folder):
    settings = [folder / "recipe.yaml", *SHORT, "--set", "data.temperature=5", "--set", "subwords.dropout=0.1"]
    run("train", *settings, "--out", folder / "whole")
    run("train", *settings, "--set", "training.steps=2", "--out", folder / "stopped")
    run("train", *settings, "--out", folder / "stopped")
    whole, stopped = ((folder / name / "model.safetensors").read_bytes() for name in ("whole", "stopped"))
    assert whole == stopped


def test_a_model_of_both_directions_is_tuned_on_one_and_keeps_both(both, folder):
    one = f"data.train={{tsv: {folder}/pairs.tsv}}"
    changes = ["--set", one, "--set", "data.validation=null"]
    tuned = run("train", folder / "recipe.yaml", *SHORT, *changes, "--from", both, "--out", folder / "tuned")
    rows = [line.split() for line in tuned.stderr.splitlines() if line.startswith("seen-")]
    assert [row[0] for row in rows] == ["seen-en-de", "seen-de-en"]
    assert all(float(row[1]) > 80 for row in rows)
    config = Model.read_config(folder / "tuned")
    assert [str(one) for one in config.directions] == ["en-de", "de-en"]
    english = run("translate", folder / "tuned", folder / "lines.de", "--to", "en").stdout
    assert share_of_equal(english, (folder / "lines.en").read_text("utf-8")) >= 0.5


def test_a_fine_tuning_that_is_killed_early_keeps_both_directions(both, folder):
    path, out = folder / "recipe.yaml", folder / "killed"
    one = f"data.train={{tsv: {folder}/pairs.tsv}}"
    changes = [one, "data.validation=null", "data.test={}", "training.steps=3", "training.save_every=1"]
    recipe = Recipe.load(path, changes, start_from=both)
    steps = train(recipe, out, device="cpu", start_from=both)
    assert [next(steps).step for _ in range(3)] == [1, 2, 3]
    steps.close()
    assert any((out / "training").glob("step-*"))
    for file in out.iterdir():  # as if killed between the first checkpoint and the first model
        if file.is_file() and file.name != "recipe.yaml":
            file.unlink()
    run("train", path, *(part for change in changes for part in ("--set", change)), "--out", out)
    assert [str(one) for one in Model.read_config(out).directions] == ["en-de", "de-en"]


def test_separate_vocabularies_have_the_tags_on_the_source_side_alone(folder):
    changes = ["--set", "subwords.shared=false", "--set", "model.embeddings=separate"]
    run("train", folder / "recipe.yaml", *SHORT, *changes, "--out", folder / "separate")
    model = Model.read(folder / "separate")
    assert list(model.source.tags) == ["to:de", "to:en"]
    assert model.target.tags == {}
    run("translate", folder / "separate", folder / "lines.de", "--to", "en")


def test_no_translation_has_a_tag(both):
    """A tag is a token of a shared vocabulary, which a sampling search would draw if it were not banned."""
    translator = Translator.load(both, to="de")
    drawn = translator.translate_records(["They should cry."] * 40, temperature=1000.0)
    assert not {token for one in drawn for token in one.tokens} & set(translator.source.tags.values())


def test_ctranslate2_gets_the_tag_of_the_direction(both, folder):
    pytest.importorskip("ctranslate2")
    for source, target in (("en", "de"), ("de", "en")):
        result = run("translate", both, folder / f"lines.{source}", "--to", target, "--engine", "ctranslate2")
        assert share_of_equal(result.stdout, (folder / f"lines.{target}").read_text("utf-8")) >= 0.8
    assert (
        "target language fr"
        in run("translate", both, folder / "lines.en", "--to", "fr", "--engine", "ctranslate2", code=2).stderr
    )


def test_the_server_translates_each_direction(both, folder):
    service = Service(load_models([str(both)], Metrics()), LanguageDetector.load(), Limits(), ApiKeys())
    application = create_application(service, Metrics(), version="1")

    def call(method, path, **values):
        async def called():
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, **values)

        return anyio.run(called).json()

    assert [(one["code"], one["targets"]) for one in call("GET", "/languages")] == [("de", ["en"]), ("en", ["de"])]
    lines = {code: (folder / f"lines.{code}").read_text("utf-8").splitlines() for code in ("en", "de")}
    for source, target in (("en", "de"), ("de", "en")):
        expected = Translator.load(both, to=target).translate(lines[source])
        asked = {"q": lines[source], "source": source, "target": target}
        assert call("POST", "/translate", json=asked)["translatedText"] == expected
        detected = call("POST", "/translate", json={**asked, "q": " ".join(lines[source][:3]), "source": "auto"})
        assert detected["detectedLanguage"]["language"] == source
        for named in ({"source": source}, {"target": target}):
            answer = call("POST", "/v1/translate", json={"text": lines[source], "alignments": True, **named})
            assert [line["translations"][0]["text"] for line in answer["lines"]] == expected
            assert {line["target_language"] for line in answer["lines"]} == {target}
    refused = call("POST", "/v1/translate", json={"text": "A dog runs."})
    assert refused == {"error": "name source and target: this server translates de-en, en-de"}
    service.close()
