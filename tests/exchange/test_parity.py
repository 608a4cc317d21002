"""The comparison of an export refuses engines that compute something else."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from models import spec_of, write_random_model

from transduce.exchange.export_model import PARITY, export
from transduce.exchange.parity import EngineTranslation, Parity, ParityError, TextDifference, compare
from transduce.model_directory.writing import write_recipe
from transduce.search.beam import Decoding
from transduce.storage.locks import exclusive_lock
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

LINES = ["the cat", "", "a dog and a bird", "Zwei Kinder"]


class OtherEngine:
    """Our own translator as another engine, with changes of its scores and of its translations."""

    def __init__(self, translator, change_scores=lambda row: row, change_text=lambda text: text):
        self.translator, self.change_scores, self.change_text = translator, change_scores, change_text

    def score(self, sources, targets):
        return [self.change_scores(row) for row in self.translator.token_scores(sources, targets)]

    def translate(self, lines, bounds):
        method = SearchMethod(self.translator.decoding, greedy=True)
        texts = [self.change_text(best[0].text) for best in self.translator.translate_lines(lines, method)]
        return list(map(EngineTranslation, texts, self.translator.target.encode(texts)))


@pytest.fixture(scope="module")
def translator(fluent):
    return Translator.load(fluent)


def test_the_same_model_is_equal_and_empty_lines_are_left_out(translator):
    parity = compare(translator, OtherEngine(translator), LINES, None)
    assert (parity.sentences, parity.left_out, parity.equal_texts, parity.greatest) == (3, 1, 3, 0.0)
    assert [parity.fault(precision) for precision in ("float32", "float16", "int8")] == [None] * 3


def test_the_end_symbol_may_be_left_out_and_no_other_token(translator):
    parity = compare(translator, OtherEngine(translator, lambda row: row[:-1]), LINES, None)
    assert parity.fault("float32") is None
    for change in (lambda row: row[:1], lambda row: np.append(row, 0.0)):
        with pytest.raises(ParityError, match="the engine splits"):
            compare(translator, OtherEngine(translator, change), LINES, None)


@pytest.mark.parametrize(
    ("precision", "allowed", "refused"), [("float32", 5e-6, 2e-4), ("float16", 3e-3, 2e-2), ("int8", 3e-2, 2e-1)]
)
def test_log_probabilities_beyond_the_tolerance_are_refused(translator, precision, allowed, refused):
    for shift, is_refused in ((allowed, False), (refused, True), (np.nan, True)):
        parity = compare(translator, OtherEngine(translator, lambda row, by=shift: row - by), LINES, None)
        assert (parity.fault(precision) is not None) == is_refused


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_wrong_translations_are_refused_in_every_precision(translator, precision):
    parity = compare(translator, OtherEngine(translator, change_text=lambda text: "qqq zzz"), LINES, None)
    assert parity.equal_texts == 0
    assert "loss of a token's log-probability in greedy translations" in str(parity.fault(precision))


def test_in_float32_one_translation_in_a_hundred_may_differ_unexplained():
    def fault(count, reason, precision="float32"):
        differences = [TextDifference("cat", "tac", "god", 0.0, reason)] * count
        return Parity(100, 0, 400, 0.0, 0.0, differences).fault(precision)

    assert fault(1, None) is fault(9, "a near tie") is fault(9, None, "int8") is None
    assert str(fault(2, None)).startswith("2 of 100 greedy translations differ, such as that of 'cat'")


def test_nothing_to_compare_is_refused(translator):
    with pytest.raises(ParityError, match="cannot be compared"):
        compare(translator, OtherEngine(translator), ["", " "], None)


def test_a_model_with_few_positions_is_exported(tmp_path):
    spec = spec_of({"positions": {"kind": "learned", "max_positions": 40}})
    directory = write_random_model(tmp_path / "run", spec)
    assert Translator.load(directory).decoding == Decoding(beam=3, extra_length=5)
    for target in ("ctranslate2", "hugging-face", "onnx"):
        parity = export(directory, target, tmp_path / target, "float32", 0)
        assert parity.sentences >= 1
        assert parity.greatest < 3e-5
    settings = json.loads((tmp_path / "hugging-face" / "generation_config.json").read_text())
    assert settings["max_length"] == 40
    assert (settings["num_beams"], settings["length_penalty"]) == (3, 0.48)  # 0.6 / 1.25


def test_two_exports_to_one_folder_exclude_each_other(tmp_path):
    directory = write_random_model(tmp_path / "run", spec_of())
    with (
        exclusive_lock(tmp_path / ".out.exporting", "export"),
        pytest.raises(ValueError, match="another export is at work"),
    ):
        export(directory, "ctranslate2", tmp_path / "out", "float32", 0)
    # What the other export left is removed.
    (tmp_path / ".out.exporting" / "old").write_text("old")
    export(directory, "ctranslate2", tmp_path / "out", "float32", 0)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "out"}
    assert not (tmp_path / "out" / "old").exists()


def test_a_link_to_an_empty_folder_is_filled(tmp_path):
    directory = write_random_model(tmp_path / "run", spec_of())
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    export(directory, "ctranslate2", tmp_path / "link", "float32", 0)
    assert (tmp_path / "real" / PARITY).exists()


def test_a_stopped_export_leaves_nothing(tmp_path):
    directory = write_random_model(tmp_path / "run", spec_of())
    arguments = ["export", directory, "--to", "hugging-face", "--out", tmp_path / "out"]
    process = subprocess.Popen([sys.executable, "-m", "transduce", *arguments], stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (tmp_path / ".out.exporting" / "config.json").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_sentences_of_several_validation_corpora_are_compared(fluent, micro, tmp_path, log_lines):
    directory = write_random_model(tmp_path / "run", spec_of())
    corpus = {"source": str(micro / "validation.en"), "target": str(micro / "validation.de")}
    recipe = json.loads((fluent / "recipe.yaml").read_text())
    recipe["data"]["validation"] = [corpus, corpus]
    write_recipe(directory, json.dumps(recipe))
    export(directory, "ctranslate2", tmp_path / "out", "float32", 9)
    assert log_lines[1] == "comparing both engines on 9 sentences of the validation corpora, and on odd lines"
