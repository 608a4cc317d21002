"""Dirty text and closed streams: one line in gives one line out, or there is a message and code 2."""

import os
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dirty_pieces import PIECES, has_old_line_ends
from micro_run import forked
from transduce.commands import main
from transduce.search.beam import Decoding
from transduce.text.lines import read_lines
from transduce.text.normalisation import normalise
from transduce.translation.batching import MAX_LINE_TOKENS
from transduce.translation.search_method import SearchMethod
from transduce.translation.translator import Translator

TEXT = st.lists(st.sampled_from([*PIECES, "owl", "pig "]), max_size=12).map("".join)


@pytest.fixture(scope="module")
def translator(fluent):
    loaded = Translator.load(fluent)
    assert loaded.translate("owl").strip()  # a model of blank translations would prove little
    return loaded


@given(text=TEXT)
@settings(max_examples=12)
def test_every_line_has_one_translation(translator, text, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "dirty"
    path.write_bytes(text.encode())
    assume(not has_old_line_ends(text.encode()))
    text = text.removeprefix("\ufeff")
    lines = read_lines(str(path))
    assert len(lines) == text.count("\n") + (text != "" and not text.endswith("\n"))
    translations = translator.translate_lines(lines, SearchMethod(Decoding(beam=1, extra_length=0)))
    assert [len(best) for best in translations] == [1] * len(lines)
    assert not any("\n" in best.text for (best,) in translations)
    assert all(best.text == "" for line, (best,) in zip(lines, translations, strict=True) if not line.strip())


def test_dirty_text_through_the_command_line(fluent):
    lines = ["owl\0pig", "", "\ufeff", "\u202eowl", "\r", "a\rb", "x" * 200, "\u2028", "⟨s⟩", " "]
    for options in ([], ["--scores"], ["--json"], ["--alignments"]):
        ended = forked("translate", fluent, "--beam=1", *options, given="\n".join(lines).encode())
        # The model may repeat itself on such text, and the command says so.
        messages = [message for message in ended.error.splitlines() if "again and again" not in message]
        assert (ended.code, messages) == (0, [])
        assert ended.out.count("\n") == len(lines)
        if not options:
            is_translated = [line.strip() != "" for line in ended.out.split("\n")[:-1]]
            assert is_translated == [normalise(line, "target") != "" for line in lines]


def test_the_line_that_is_not_utf8_is_named_also_after_a_byte_order_mark(tmp_path):
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfone\ntwo\n\xff\n")
    with pytest.raises(ValueError, match=r"text: line 3 is not UTF-8"):
        read_lines(str(tmp_path / "text"))
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfo\n\xff\n")
    with pytest.raises(ValueError, match=r"text: line 2 is not UTF-8"):
        read_lines(str(tmp_path / "text"))


def test_a_line_that_is_too_long_is_named(translator):
    huge = "x" * (2 * MAX_LINE_TOKENS)
    for call, side in (
        (lambda: translator.translate(["owl", huge]), ""),
        (lambda: translator.score(["owl", "owl"], ["pig", huge]), " of the target"),
    ):
        message = rf"line 2{side} has 8,1\d\d subwords, more than 4,096, and would need .* GB of memory; split the line"
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("source", "message"), [("", "there is no line to validate or test on"), ("a", "line 1 of the source has")]
)
def test_a_faulty_validation_corpus_is_reported_before_the_training(micro, tmp_path, source, message):
    """It once ended the training after 500 steps, by a division by zero or by too little memory."""
    (tmp_path / "v").write_text(source * 2 * MAX_LINE_TOKENS)
    corpus = f"data.validation={{source: {tmp_path / 'v'}, target: {tmp_path / 'v'}}}"
    ended = forked("train", micro / "recipe.yaml", "--out", tmp_path / "run", "--set", corpus)
    assert ended.code == 2
    assert message in ended.error
    assert "step " not in ended.error


CLOSED = [
    ("translate RUN <&-", 2, "standard input is closed"),
    ("info tiny >&-", 2, "standard output is closed"),
    ("info tiny >/dev/full", 2, "no space left on device"),
]


@pytest.mark.parametrize(("line", "code", "message"), CLOSED)
def test_closed_and_full_streams(fluent, line, code, message):
    command = f"exec {sys.executable} -m transduce {line.replace('RUN', str(fluent))}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, message in ended.stderr, ended.stderr.count("\n")) == (code, True, 1), ended.stderr


def test_messages_never_go_to_standard_output(tmp_path):
    command = f"exec {sys.executable} -m transduce info {tmp_path}/none 2>&-"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")


def test_output_is_utf8_in_every_locale(tmp_path):
    (tmp_path / "naïve").mkdir()
    run = os.fsencode(tmp_path) + b"/na\xefve \xc3\xbc"
    command = [sys.executable, "-m", "transduce", "fetch", "embedded", b"--out=" + run]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    ended = subprocess.run(command, capture_output=True, timeout=60, env=environment)
    assert (ended.returncode, ended.stdout.split(b"\n")[0]) == (0, run + b"/embedded/train/source.en")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam=9999999999"], "`beam` is 9999999999"),
        (["--length-penalty=1e9"], "`length_penalty` is"),
        (["--length-penalty=nan"], "write at least 0"),
        (["--temperature=inf"], "finite"),
        (["--top-k=3", f"--seed={'9' * 30}"], "--seed"),
    ],
)
def test_options_out_of_range_are_refused(fluent, options, message, capsys, tmp_path):
    (tmp_path / "text").write_text("owl\n")
    with pytest.raises(SystemExit) as leaving:
        main(["translate", str(fluent), str(tmp_path / "text"), *options])
    assert leaving.value.code == 2
    assert message in capsys.readouterr().err
