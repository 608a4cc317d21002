"""`transduce translate`: loops are named, and banned on request."""

import json

import pytest

from transduce.documents import sentence_translator
from transduce.model_directory.model import Model
from transduce.translation.translator import Translator


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("loops") / "in.txt"
    path.write_text("ant bee cat dog eel fox gnu hen\n\nkite lark mole newt owl\n")
    return path


def test_loops_are_named_on_standard_error(fluent, text, tmp_path, command):
    (tmp_path / "prefixes").write_text("aha aha aha aha aha\n\nfox fox fox fox fox\n")
    code, _, error = command("translate", fluent, text, "--prefix", tmp_path / "prefixes")
    message = (
        "2 translations repeat the same text again and again (the first: line 1); --no-repeat-ngram 4 breaks such loops"
    )
    assert (code, message in error) == (0, True), error
    code, _, error = command("translate", fluent, text)
    assert (code, "again and again" in error) == (0, False), error


def test_loops_in_documents_are_counted(fluent, tmp_path, command, monkeypatch):
    page, out = tmp_path / "page.html", tmp_path / "out.html"
    page.write_text("<p>ant bee cat</p><p>ant bee cat</p><p>dog</p>")
    code, _, error = command("translate-document", fluent, page, "--out", out)
    assert (code, "again and again" in error) == (0, False), error
    monkeypatch.setattr(sentence_translator, "is_loop", lambda output, source: source != "dog")
    code, _, error = command("translate-document", fluent, page, "--out", out, "--overwrite")
    message = "1 translation repeats the same text again and again; --no-repeat-ngram 4 breaks such loops"
    assert (code, message in error) == (0, True), error


def test_the_ban_changes_what_repeats_itself(micro, text, tmp_path, command):
    """A model that has hardly learned anything writes one token again and again."""
    run, short = tmp_path / "run", [f"--set=training.{change}" for change in ("steps=2", "average=null")]
    assert command("train", micro / "recipe.yaml", "--out", run, *short)[0] == 0
    code, free, _ = command("translate", run, text, "--greedy")
    code, banned, error = command("translate", run, text, "--greedy", "--no-repeat-ngram", 2)
    assert code == 0, error
    assert banned != free


@pytest.mark.parametrize("options", [{}, {"greedy": True}, {"temperature": 1.0}])
def test_no_bigram_of_tokens_stands_twice(trained, options):
    for translation in Translator.load(trained).translate_records(["ant bee cat", "owl"], no_repeat_ngram=2, **options):
        bigrams = list(zip(translation.tokens, translation.tokens[1:], strict=False))
        assert len(bigrams) == len(set(bigrams))


def test_the_ban_of_the_recipe_is_kept_and_switched_off(micro, text, tmp_path, command):
    short = ("--set", "training.steps=2", "--set", "training.average=null", "--set", "training.validate_every=null")
    code, _, error = command(
        "train", micro / "recipe.yaml", "--out", tmp_path / "run", *short, "--set", "decoding.no_repeat_ngram=1"
    )
    assert code == 0, error
    assert Model.read_config(tmp_path / "run").decoding.no_repeat_ngram == 1
    assert json.loads((tmp_path / "run" / "config.json").read_text())["decoding"]["no_repeat_ngram"] == 1
    with_ban = Translator.load(tmp_path / "run").translate_records("ant bee").tokens
    free = Translator.load(tmp_path / "run").translate_records("ant bee", no_repeat_ngram=0).tokens
    assert with_ban != free
    code, _, error = command("export", tmp_path / "run", "--to", "marian", "--out", tmp_path / "export")
    assert (code, "no_repeat_ngram" in error) == (2, True), error
