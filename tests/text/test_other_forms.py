"""Files of other encodings and with other line ends are named at every door, by what to type."""

import pytest

from transduce import Translator
from transduce.commands import main
from transduce.corpus.readers import read_byte_lines
from transduce.text.lines import read_lines

LINES = "A dog runs.\nA cat drinks milk.\nÄpfel, 犬.\n"
FAULTS = {
    LINES.encode("utf-16"): r"UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`",
    LINES.encode("utf-16-le"): r"UTF-16 without a mark; convert it with `iconv -f UTF-16LE -t UTF-8`",
    LINES.encode("utf-16-be"): r"UTF-16 without a mark; convert it with `iconv -f UTF-16BE -t UTF-8`",
    LINES.encode("utf-32"): r"UTF-32; convert it with `iconv -f UTF-32 -t UTF-8`",
    LINES.replace("\n", "\r").encode(): r"carriage returns in the place of line feeds; convert it with `tr",
    LINES.replace("\n", "\r").encode() + b"\n": r"carriage returns in the place of line feeds; convert it with `tr",
}


@pytest.mark.parametrize("read", [read_lines, lambda path: list(read_byte_lines(path))])
@pytest.mark.parametrize("content", FAULTS)
def test_what_is_no_text_of_lines_is_named(tmp_path, content, read):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=FAULTS[content]):
        read(str(path) if read is read_lines else path)


@pytest.mark.parametrize("command", ["translate", "translate-corpus"])
def test_translating_names_it(fluent, tmp_path, command, capsys):
    (tmp_path / "text").write_bytes(LINES.replace("\n", "\r").encode() + b"\n")
    arguments = [command, str(fluent), str(tmp_path / "text"), "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "carriage returns in the place of line feeds" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["a\r\nb\r\n", "a\rb\nc\nd\n", "\ra\n", "a\r", "a\r\r\nb", "", "a\0b\nc\n"])
def test_other_carriage_returns_pass(tmp_path, content):
    (tmp_path / "text").write_text(content, newline="")
    assert len(read_lines(str(tmp_path / "text"))) == content.removesuffix("\n").count("\n") + bool(content)


def test_a_line_that_is_too_long_is_named_before_any_is_translated(fluent, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Translator, "translate_by_halves", None)  # it would fail at the first batch
    (tmp_path / "text").write_text("owl\n" * 1200 + "ab " * 6000 + "\n")
    with pytest.raises(SystemExit) as ended:
        main(["translate", str(fluent), str(tmp_path / "text"), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert "line 1201 has" in capsys.readouterr().err
    assert not (tmp_path / "out.partial").exists()
