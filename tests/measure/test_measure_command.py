"""`transduce measure` and the reading of its files."""

import json

import pytest
import typer
from typer.testing import CliRunner

from transduce.commands.measure import measure
from transduce.measure import compare, scores
from transduce.text.lines import read_lines

app = typer.Typer()
app.command()(measure)

REFERENCE = ["the cat sat on the mat", "a dog ran away from it", "so it goes today"]
OUTPUT = ["the cat sat on a mat", "a dog ran away from it", ""]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference").write_bytes("\r\n".join(REFERENCE).encode())
    (tmp_path / "output").write_text("\n".join(OUTPUT) + "\n")
    (tmp_path / "perfect").write_text("\n".join(REFERENCE) + "\n")
    return tmp_path


def run(*arguments: str, stdin: str | None = None) -> str:
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_line_a_metric(folder):
    printed = run("--reference", "reference", "--metric", "bleu,ter", "output").rstrip().split("\n")
    expected = scores(OUTPUT, [REFERENCE], ["bleu", "ter"])
    for line, (name, score) in zip(printed, expected.items(), strict=True):
        assert line.split() == [name, f"{score.score:.2f}", score.signature]


@pytest.mark.parametrize("output", [[], ["-"]])
def test_standard_input_is_an_output(folder, output):
    printed = run("--reference", "reference", "--json", "--bootstrap", "50", *output, stdin="\n".join(OUTPUT) + "\n")
    assert json.loads(printed) == {"bleu": scores(OUTPUT, [REFERENCE], bootstrap=50)["bleu"]._asdict()}


def test_several_references(folder):
    printed = run("--reference", "reference", "--reference", "output", "--json", "output")
    measured = json.loads(printed)["bleu"]
    assert measured["score"] == pytest.approx(100)
    assert measured["signature"].startswith("nrefs:2|")
    assert set(measured) == {"score", "signature", "low", "high"}


def test_two_outputs_are_compared(folder):
    printed = json.loads(run("--reference", "reference", "--json", "--bootstrap", "70", "output", "perfect"))
    comparison = compare([OUTPUT, REFERENCE], [REFERENCE], bootstrap=70)["bleu"]
    (difference,) = comparison.differences
    assert printed == {
        "bleu": {
            "output": "output",
            **comparison.baseline._asdict(),
            "compared": [
                {"output": "perfect", **difference.score._asdict(), "delta": difference.delta, "p": difference.p}
            ],
        }
    }
    title, first, second = run("--reference", "reference", "output", "perfect").rstrip().split("\n")
    assert "bs:1000" in title
    assert first.split()[0] == "output"
    assert first.endswith("baseline")
    assert f"{difference.delta:+.2f}, p = " in second


def test_language_and_tokeniser_are_passed_on(folder):
    options = ["--reference", "reference", "--metric", "bleu, bleu-paper", "--language", "de", "--tokenize", "char"]
    for outputs in (["output"], ["output", "perfect"]):
        printed = run(*options, *outputs)
        assert "tok:char" in printed
        assert "tok:paper-de-" in printed


def test_help_names_every_metric(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert "bleu,chrf,ter,bleu-lowercased-tokenised,bleu-paper" in run("--help")


def test_markup_is_refused_by_its_line(folder):
    (folder / "reference.sgm").write_text('\n<refset setid="a">\n<seg id="1">the cat</seg>\n')
    with pytest.raises(ValueError, match=r"reference\.sgm: line 2 is markup, not text: '<refset"):
        read_lines("reference.sgm")


def test_other_encodings_are_refused_by_their_line(folder):
    (folder / "latin").write_bytes("eins\nfünf\n".encode("latin-1"))
    with pytest.raises(ValueError, match="latin: line 2 is not UTF-8"):
        read_lines("latin")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", []),
        ("\n", [""]),
        ("a\n\nb", ["a", "", "b"]),
        ("\ufeffa\r\n\n", ["a", ""]),
        ("a\x85b\u2028c\rd\n", ["a\x85b\u2028c\rd"]),
        ("a <seg> b\n", ["a <seg> b"]),
    ],
)
def test_lines_end_at_line_feeds_only(folder, content, expected):
    (folder / "text").write_bytes(content.encode())
    assert read_lines("text") == expected


def test_a_tokeniser_is_of_bleu(folder):
    result = CliRunner().invoke(app, ["--reference", "reference", "--metric", "chrf", "--tokenize", "zh", "output"])
    assert isinstance(result.exception, ValueError)
    assert "--tokenize zh: it is for the metric bleu" in str(result.exception)


def test_standard_input_is_read_once(folder):
    with pytest.raises(ValueError, match="standard input can be read once"):
        run("--reference", "-", "-", stdin="one\n")


def test_a_tokeniser_that_lacks_its_package_is_named(folder, monkeypatch):
    class Missing:
        TOKENIZERS = ("ja-mecab",)

        def __init__(self, **settings):
            raise RuntimeError("needs a package")

    monkeypatch.setattr("transduce.measure.metrics.BLEU", Missing)
    with pytest.raises(ValueError, match="cannot tokenise 'ja-mecab': needs a package"):
        run("--reference", "reference", "--tokenize", "ja-mecab", "--language", "de", "output")
