"""`transduce measure --differences`: its tables, its JSON, its page and its refusals."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.commands import app
from transduce.pages.system_comparison import compare_systems

REFERENCE = ["the cat sat on the mat", "a dog ran away from it", "so it goes today", ""]
FIRST = ["the cat sat on a mat", "a dog ran away from it", "", "x"]
SECOND = ["the cat sat on the mat", "the hound ran", "so it goes", ""]
SOURCE = ["die Katze", "ein Hund", "so geht es", "nichts"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("ref", REFERENCE), ("one", FIRST), ("two", SECOND), ("src", SOURCE), ("train", ["a b", "a"])):
        Path(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return tmp_path


def run(*arguments: str, stdin: str | None = None) -> str:
    words = ["measure", "--differences", "--reference", "ref", "--bootstrap", "20", *arguments]
    result = CliRunner().invoke(app, words, input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_has_the_whole_comparison_and_the_texts_of_sentences() -> None:
    printed = json.loads(run("--source", "src", "--train", "train", "--language", "en", "--json", "one", "two"))
    expected = compare_systems((FIRST, SECOND), REFERENCE, train=["a b", "a"], language="en", bootstrap=20)
    assert printed["systems"] == ["one", "two"]
    assert printed["by_length"] == json.loads(json.dumps([each._asdict() for each in expected.systems.by_length]))
    assert printed["by_frequency"] == json.loads(json.dumps([each._asdict() for each in expected.systems.by_frequency]))
    assert printed["ngrams"]["b"] == json.loads(json.dumps([each._asdict() for each in expected.ngrams[1]]))
    (difference,) = expected.systems.scores["chrf"].differences
    assert printed["scores"]["chrf"]["b"]["score"] == difference.score.score
    assert printed["scores"]["chrf"]["delta"] == difference.delta
    assert printed["length_ratios"] == pytest.approx(
        [sum(len(line.split()) for line in text) / 16 for text in (FIRST, SECOND)]
    )
    (sentence,) = (each for each in printed["sentences"]["a"] if each["line"] == 2)
    texts = {name: sentence[name] for name in ("source", "reference", "a", "b")}
    assert texts == {"source": SOURCE[1], "reference": REFERENCE[1], "a": FIRST[1], "b": SECOND[1]}
    assert sentence["chrf"][0] == pytest.approx(100)


def test_tables_name_both_systems_and_every_analysis() -> None:
    printed = run("--source", "src", "one", "two")
    titles = [paragraph.split("\n")[0].split("  ")[0] for paragraph in printed.rstrip().split("\n\n")]
    assert titles == [
        "A: one",
        "Scores",
        "By words of the reference",
        "By frequency of the word",
        "N-grams of the reference that A has more often than B",
        "N-grams of the reference that B has more often than A",
        "Sentences where A is better than B, by chrF",
        "Sentences where B is better than A, by chrF",
    ]
    assert "line 2: A 100.0, B " in printed
    assert "\n  source     ein Hund\n  reference  a dog ran away from it\n" in printed
    assert "0 to 9                             4" in printed


def test_a_system_may_be_standard_input() -> None:
    printed = json.loads(run("--json", "one", "-", stdin="".join(f"{line}\n" for line in SECOND)))
    assert printed["scores"] == json.loads(run("--json", "one", "two"))["scores"]
    assert "source" not in printed["sentences"]["a"][0]


def test_a_reference_without_words_is_compared() -> None:
    Path("ref").write_text("\n\n\n\n")
    assert json.loads(run("--json", "one", "two"))["length_ratios"] == [None, None]
    assert "nan" in run("one", "two")


def test_the_page_is_written_and_not_overwritten_by_accident(folder: Path) -> None:
    run("--html", "page.html", "one", "two")
    assert "<h1>Comparison of two systems</h1>" in Path("page.html").read_text("utf-8")
    assert (
        CliRunner().invoke(app, ["measure", "--reference", "ref", "--html", "page.html", "one", "two"]).exit_code == 2
    )
    run("--html", "page.html", "--overwrite", "one", "two")
    assert [path.name for path in sorted(folder.glob("*page*"))] == ["page.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one", "train"], "ref has 4 lines and train has 2: they must be equally many"),
        (["--source", "train", "one", "two"], "ref has 4 lines and train has 2"),
        (["one", "missing"], "missing: no such file or directory"),
        (["-", "-"], "standard input can be read once"),
        (["--html", ".", "one", "two"], "--html .: that is a folder"),
        (["--html", "one", "one", "two"], "--html one: the file exists already"),
        (["one"], "--differences shows where two outputs differ: name two OUTPUTs"),
        (["--metric", "ter", "one", "two"], "--metric ter: it is not for --differences"),
        (["--language", "ja", "one", "two"], "`pip install '.[japanese]'`"),
    ],
)
def test_wrong_input_is_refused(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    result = CliRunner().invoke(app, ["measure", "--differences", "--reference", "ref", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")
