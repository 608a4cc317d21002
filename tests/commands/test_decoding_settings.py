"""`transduce info RUN --set`: the decoding settings of a finished model."""

import json
import shutil

import pytest

from micro_run import forked
from transduce.model_directory.manifest import verify
from transduce.model_directory.model import Model
from transduce.storage.locks import exclusive_lock


@pytest.fixture
def model(fluent, tmp_path):
    """A copy of a run, without its checkpoints."""
    return shutil.copytree(fluent, tmp_path / "model", ignore=shutil.ignore_patterns("training"))


def test_it_prints_all_settings(model):
    printed = json.loads(forked("info", model, "--json").out)["decoding"]
    assert printed == Model.read_config(model).decoding.as_dictionary()
    lines = [line for line in forked("info", model).out.splitlines() if line.startswith("decoding.")]
    assert [line.split() for line in lines] == [
        [f"decoding.{key}", json.dumps(value)] for key, value in printed.items()
    ]


def test_a_change_is_what_the_option_does(model, micro):
    text, beam = micro / "test.en", Model.read_config(model).decoding.beam
    before, greedy = (forked("translate", model, text, *options).out for options in ((), ("--beam", 1)))
    ended = forked("info", model, "--set", "decoding.beam=1")
    assert ended.code == 0
    assert forked("translate", model, text).out == greedy != before
    assert verify(model) == []
    assert forked("translate", model, text, "--beam", beam).out == before


def test_the_other_settings_and_files_stay(model):
    before = Model.read_config(model)
    files = {path.name: path.read_bytes() for path in model.iterdir()}
    forked("info", model, "--set", "decoding={no_repeat_ngram: 4, extra_length: 7}")
    changed = {"no_repeat_ngram": 4, "extra_length": 7}
    after = Model.read_config(model)
    assert after.decoding == before.decoding.model_copy(update=changed)
    assert after == before.model_copy(update={"decoding": after.decoding})
    changed = {name for name, content in files.items() if (model / name).read_bytes() != content}
    assert changed == {"config.json", "manifest.json"}
    forked("info", model, "--set", "decoding.no_repeat_ngram=null")
    assert Model.read_config(model).decoding.no_repeat_ngram is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.steps=5", "--set training.steps=5: only the settings of decoding change in a finished model"),
        ("beam=5", "write decoding.KEY=VALUE, where KEY is one of beam, length_penalty, extra_length, margin"),
        ("decoding=5", "write decoding.KEY=VALUE"),
        ("decoding.beams=5", "--set: unknown key `decoding.beams`; did you mean `decoding.beam`?"),
        ("decoding.beam=0", "`decoding.beam` is 0"),
        ("decoding.beam", "write KEY=VALUE"),
    ],
)
def test_what_cannot_be_changed_is_refused(model, change, message):
    before = (model / "config.json").read_bytes()
    ended = forked("info", model, "--set", "decoding.beam=3", "--set", change)
    assert ended.code == 2
    assert message in ended.error
    assert (model / "config.json").read_bytes() == before


def test_a_parser_refuses_the_settings_of_translations(parser):
    ended = forked("info", parser, "--set", "decoding.no_repeat_ngram=4")
    assert ended.code == 2
    assert "`decoding.no_repeat_ngram` is for translations" in ended.error


def test_a_training_at_work_keeps_its_settings(model):
    with exclusive_lock(model, "training"):
        ended = forked("info", model, "--set", "decoding.beam=3")
    assert ended.code == 2
    assert "another training is at work in" in ended.error


def test_a_calibration_of_the_earlier_settings_is_named(model):
    (model / "confidence.json").write_text("{}")
    assert forked("info", model).error == ""
    beam = Model.read_config(model).decoding.beam
    assert forked("info", model, "--set", f"decoding.beam={beam}").error == ""
    ended = forked("info", model, "--set", "decoding.beam=3")
    assert ended.code == 0
    assert "confidence.json is of the earlier settings: make it again with `transduce calibrate" in ended.error


def test_an_export_names_how_to_switch_off_what_engines_lack(model, tmp_path):
    forked("info", model, "--set", "decoding.no_repeat_ngram=4")
    ended = forked("export", model, "--to", "hugging-face", "--out", tmp_path / "out")
    assert ended.code == 2
    assert f"`transduce info {model} --set decoding.no_repeat_ngram=null` switches it off" in ended.error
