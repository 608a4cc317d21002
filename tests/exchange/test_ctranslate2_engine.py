"""`transduce translate --engine ctranslate2`: our output formats, bounds and options with CTranslate2's search."""

import errno
import itertools
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from models import SEPARATE, spec_of, write_banning_model, write_random_model

from transduce.exchange import ctranslate2_folder
from transduce.exchange.ctranslate2_folder import CONVERSIONS, load_ctranslate2
from transduce.exchange.export_model import export
from transduce.search.beam import Decoding, length_penalty
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

ENGINE = ["--engine", "ctranslate2"]


@pytest.fixture(scope="module")
def run(fluent, tmp_path_factory):
    """The fluent model with CTranslate2's log-probabilities, and with a conversion after the first test."""
    return write_banning_model(fluent, tmp_path_factory.mktemp("engine") / "run")


@pytest.fixture
def text(micro, tmp_path):
    """Lines of unequal lengths, an empty one among them."""
    path = tmp_path / "text"
    path.write_text("\n" + (micro / "test.en").read_text() + "ant\n")
    return path


def table(stdout):
    """The columns of a TSV of scores, the numbers rounded."""
    rows = [line.split("\t") for line in stdout.splitlines()]
    return [(number, text, *(round(float(score), 4) for score in scores)) for number, text, *scores in rows]


def test_greedy_translations_equal_ours(run, text, command):
    arguments = ["translate", run, text, "--greedy", "--json"]
    code, ours, _ = command(*arguments)
    other, theirs, error = command(*arguments, *ENGINE)
    assert (code, other) == (0, 0), error
    for mine, one in zip(map(json.loads, ours.splitlines()), map(json.loads, theirs.splitlines()), strict=True):
        (left,), (right,) = mine["translations"], one["translations"]
        assert left["text"] == right["text"]
        assert left["log_probability"] == pytest.approx(right["log_probability"], abs=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 0.6])
def test_a_beam_has_our_log_probabilities_and_our_penalty(run, text, command, penalty):
    # CTranslate2 ends its search by a rule of its own, so that the texts may differ.
    options = ["--beam", "3", "--n-best", "2", "--length-penalty", str(penalty)]
    code, stdout, error = command("translate", run, text, *options, *ENGINE)
    assert code == 0, error
    translator, lines = Translator.load(run), text.read_text().splitlines()
    rows = [line.split("\t") for line in stdout.splitlines()]
    assert [number for number, *_ in rows] == ["1", *(str(n) for n in range(2, len(lines) + 1) for _ in range(2))]
    for number, translation, log_probability, score in rows:
        if lines[int(number) - 1]:
            (tokens,) = translator.token_scores([lines[int(number) - 1]], [translation])
            assert float(log_probability) == pytest.approx(tokens.sum(), abs=1e-4)
            assert float(score) == pytest.approx(tokens.sum() / length_penalty(len(tokens), penalty), abs=1e-4)
    for (number, *_, better), (other, *_, worse) in itertools.pairwise(rows):
        assert number != other or float(better) >= float(worse)


def test_prefixes_are_kept_and_scored(run, text, tmp_path, command):
    prefixes = tmp_path / "prefixes"
    prefixes.write_text("".join(f"{beginning}\n" for beginning in ["", "god", "", "tac eeb", "", "x", "gnu"]))
    arguments = ["translate", run, text, "--prefix", prefixes, "--greedy", "--scores"]
    code, ours, _ = command(*arguments)
    other, theirs, error = command(*arguments, *ENGINE)
    assert (code, other) == (0, 0), error
    assert table(ours) == table(theirs)


def test_a_translation_does_not_depend_on_its_companions(tmp_path):
    folder = tmp_path / "out"
    export(write_random_model(tmp_path / "run", spec_of(SEPARATE)), "ctranslate2", folder, "float32", 0)
    translator = load_ctranslate2(folder)
    method = SearchMethod(Decoding(beam=2, extra_length=3), greedy=True)
    lines = ["cat", "a dog and a bird sing", "the mat"]  # random weights hardly ever end a sentence
    together = translator.translate_lines(lines, method)
    alone = [translator.translate_lines([line], method)[0] for line in lines]
    # CTranslate2 itself rounds otherwise in another batch on some processors.
    for (best,), (other,) in zip(together, alone, strict=True):
        assert best.tokens == other.tokens
        assert best.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    assert [best[0].tokens for best in together] == [
        best[0].tokens for best in Translator.load(tmp_path / "run").translate_lines(lines, method)
    ]


@pytest.mark.parametrize("options", [["--greedy"], ["--beam", "2", "--n-best", "2"]])
def test_a_line_with_text_has_a_token_though_the_model_would_rather_end(options, text, tmp_path, command):
    random = write_random_model(tmp_path / "random", spec_of(), end=10.0)
    run = write_banning_model(random, tmp_path / "run")
    arguments = ["translate", run, text, "--scores", *options]
    code, ours, _ = command(*arguments)
    other, theirs, error = command(*arguments, *ENGINE)
    assert (code, other) == (0, 0), error
    lines = text.read_text().splitlines()
    for mine, one in zip(table(ours), table(theirs), strict=True):
        assert mine[:2] == one[:2]
        assert mine[2:] == pytest.approx(one[2:], abs=2e-4)
        assert bool(mine[1]) == bool(lines[int(mine[0]) - 1])


def test_a_run_is_converted_once_and_again_after_training_on(run, text, command):
    shutil.rmtree(run / CONVERSIONS, ignore_errors=True)
    _, _, first = command("translate", run, text, *ENGINE)
    _, _, second = command("translate", run, text, *ENGINE)
    assert f"converting {run} for CTranslate2, once" in first
    assert "converting" not in second
    (converted,) = (run / CONVERSIONS).iterdir()
    converted.rename(converted.with_name("ctranslate2-0000000000000000"))  # that of other weights
    command("translate", run, text, *ENGINE)
    assert [path.name for path in (run / CONVERSIONS).iterdir()] == [converted.name]


@pytest.mark.parametrize("fault", [errno.EACCES, errno.EROFS])
def test_a_run_that_is_not_writable_names_the_export(run, text, command, monkeypatch, fault):
    def refuse(*arguments, **options):
        raise OSError(fault, os.strerror(fault), str(run))

    shutil.rmtree(run / CONVERSIONS, ignore_errors=True)
    monkeypatch.setattr(ctranslate2_folder, "export", refuse)
    code, _, stderr = command("translate", run, text, *ENGINE)
    assert code == 2
    assert f"`transduce export {run} --to ctranslate2 --out FOLDER`" in stderr


def test_an_exported_folder_translates_without_the_run(run, text, tmp_path, command):
    assert command("export", run, "--to", "ctranslate2", "--precision", "int8", "--out", tmp_path / "out")[0] == 0
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    code, stdout, stderr = command("translate", moved, text, "--scores", *ENGINE)
    assert (code, stderr) == (0, "")
    assert [row.split("\t")[0] for row in stdout.splitlines()] == ["1", "2", "3", "4", "5", "6", "7"]
    _, of_float32, _ = command("translate", moved, text, "--scores", "--precision", "float32", *ENGINE)
    _, of_int8, _ = command("translate", moved, text, "--scores", "--precision", "int8", *ENGINE)
    assert stdout == of_int8 != of_float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--temperature", "1"], "--engine ctranslate2 does not sample by our seeds"),
        (["--alignments"], "this engine returns no attention weights"),
    ],
)
def test_options_that_ctranslate2_lacks_are_refused(run, text, command, options, message):
    code, stdout, stderr = command("translate", run, text, *options, *ENGINE)
    assert (code, stdout) == (2, "")
    assert message in stderr


def test_ensembles_and_missing_folders_are_refused(run, text, tmp_path, command):
    code, _, stderr = command("translate", run, run, text, *ENGINE)
    assert (code, stderr) == (2, "transduce: --engine ctranslate2 has no ensembles: name one model\n")
    code, _, stderr = command("translate", tmp_path / "none", text, *ENGINE)
    assert code == 2
    assert "there is no model directory" in stderr


def test_a_damaged_export_is_refused(run, text, tmp_path, command):
    assert command("export", run, "--to", "ctranslate2", "--out", tmp_path / "out")[0] == 0
    with (tmp_path / "out" / "model.bin").open("r+b") as file:
        file.truncate(1000)
    code, stdout, stderr = command("translate", tmp_path / "out", text, *ENGINE)
    assert (code, stdout) == (2, "")
    assert f"CTranslate2 cannot load {tmp_path / 'out'} on cpu" in stderr


GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "other-engines.md"


def test_the_program_of_the_guide_translates_as_the_model_does(run, text, tmp_path, monkeypatch, capsys):
    export(run, "ctranslate2", tmp_path / "exported" / "ctranslate2", "float32", 0)
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    namespace: dict = {}
    exec(program, namespace)
    assert capsys.readouterr().out.strip()
    lines = [line for line in text.read_text().splitlines() if line]
    translated = Translator.load(run).translate_records(lines, greedy=True)
    assert [namespace["translate"](line, beam=1) for line in lines] == [translation.text for translation in translated]
    with pytest.raises(ValueError, match="positions"):
        namespace["translate"]("ant " * 2100)
