"""`transduce translate-document`: which format it chooses, what it writes, and what it refuses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.commands import app, main

WORDS = "ant bee {0} cat"


def translate(*arguments: object, given: bytes = b"") -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["translate-document", *map(str, arguments)], input=given)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(f"<html><p class=x>{WORDS} <b>dog</b>. Eel fox.</p><pre>{WORDS}</pre></html>\n", "utf-8")
    return path


def test_a_document_is_known_by_its_name_and_by_its_content(fluent: Path, page: Path, tmp_path: Path) -> None:
    code, out, error = translate(fluent, page)
    assert (code, error) == (0, "")
    assert out.startswith("<html><p class=x>")
    assert out.endswith(f"</p><pre>{WORDS}</pre></html>\n")
    assert [out.count(part) for part in ("<b>", "</b>", "{0}", "tna")] == [1, 1, 2, 1]
    other = page.rename(tmp_path / "page.unknown")
    assert translate(fluent, other) == (0, out, "")
    assert translate(fluent, "--format", "html", given=other.read_bytes()) == (0, out, "")
    assert translate(fluent, other, "--out", tmp_path / "new.html") == (0, "", "")
    assert (tmp_path / "new.html").read_text("utf-8") == out


def test_a_text_is_translated_sentence_by_sentence_one_line_for_each(fluent: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("ant bee. Cat dog.\n\nowl pig\n  {0}\n", "utf-8")
    _, out, error = translate(fluent, text)
    sentences = tmp_path / "sentences"
    sentences.write_text("ant bee.\nCat dog.\nowl pig\n", "utf-8")
    parts = CliRunner().invoke(app, ["translate", str(fluent), str(sentences)]).stdout.split("\n")
    assert out == f"{parts[0]} {parts[1]}\n\n{parts[2]}\n  {{0}}\n"
    assert error == ""
    lines = CliRunner().invoke(app, ["translate", str(fluent), str(text)])
    assert lines.stdout != out
    assert "(`transduce translate-document` splits them)" in lines.stderr
    same = text.rename(tmp_path / "text.en")
    assert translate(fluent, same) == (0, out, "")


def test_json_on_standard_input(fluent: Path) -> None:
    code, out, _ = translate(fluent, "--format", "json", given=b'{"a": "ant bee"}')
    assert code == 0
    assert json.loads(out)["a"].startswith("tna")


def test_a_document_without_text_is_written_as_it_is(fluent: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    code, out, error = translate(fluent, tmp_path / "a.json")
    assert (code, out) == (0, '{"a": 1}')
    assert "there is nothing to translate" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["page.html", "--retranslate"], "--retranslate: html has no translations to replace"),
        (["page.html", "--format", "xliff"], "page.html: damaged XML"),
        (["page.html", "--format", "docx"], "name the translation with --out"),
        (["page.html", "--format", "docx", "--out", "new.docx"], "page.html: damaged DOCX"),
        (["empty.html"], "empty.html: the file is empty"),
    ],
)
def test_what_is_refused(
    options: list[str], message: str, fluent: Path, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.html").touch()
    code, out, error = translate(fluent, *options)
    assert (code, out) == (2, "")
    assert message in error
    assert not (tmp_path / "new.docx").exists()


@pytest.mark.parametrize("name", ["page.html", "notes.md", "texts.json", "captions.SRT"])
def test_lines_of_a_document_are_not_translated_by_mistake(name: str, fluent: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text("ant bee\n")
    refused = CliRunner().invoke(app, ["translate", str(fluent), str(tmp_path / name)])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "`transduce translate-document` translates it" in refused.stderr


def test_a_closed_standard_input_is_named(
    fluent: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SystemExit) as leaving:
        main(["translate-document", str(fluent), "--format", "html"])
    assert leaving.value.code == 2
    assert "standard input is closed; name a file" in capsys.readouterr().err
