"""`transduce measure` and the reading of its files."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from transduce.commands.measure import measure
from transduce.commands.paired_texts import read_paired_texts
from transduce.measure.scoring import compare, scores
from transduce.parsing.bracket_scores import bracket_scores, compare_brackets
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
    assert "bleu,chrf,ter,spbleu,bleu-lowercased-tokenised,bleu-paper" in run("--help")


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


GOLD_TREES = ["(S (NP (DT the) (NN cat)) (VP (VBD sat)) (. .))", "(TOP (X (UH oh)))", "(S (NP (PRP it)) (VP (VBZ is)))"]
OUTPUT_TREES = ["(S (NP (DT the)) (VP (NN cat) (VBD sat)) (. .))", "", "(S (NP (PRP he)) (VP (VBZ is)))"]


@pytest.fixture
def trees(folder):
    (folder / "gold").write_text("\n".join(GOLD_TREES) + "\n")
    (folder / "mrg").write_text("\n\n".join(f"( {tree} )".replace(" (VP", "\n  (VP") for tree in GOLD_TREES) + "\n")
    (folder / "trees").write_text("\n".join(OUTPUT_TREES) + "\n")
    (folder / "p.prm").write_text("EQ_WORD he it\nCUTOFF_LEN 2\n")
    return folder


def brackets(*arguments: str, stdin: str | None = None) -> str:
    return run("--metric", "brackets", "--reference", "gold", *arguments, stdin=stdin)


@pytest.mark.parametrize("output", [["trees"], ["-"]])
def test_brackets_as_json(trees, output):
    printed = json.loads(brackets("--json", *output, stdin="\n".join(OUTPUT_TREES)))["brackets"]
    score = bracket_scores(GOLD_TREES, OUTPUT_TREES, bootstrap=1000)
    assert printed == score.as_object()
    assert printed["score"] == pytest.approx(100 / 3)
    assert printed["f1_with_errors"] == pytest.approx(200 / 10)
    assert [printed[name] for name in ("sentences", "valid", "errors", "skipped")] == [3, 1, 1, 1]
    assert printed["low"] <= printed["score"] <= printed["high"]
    assert printed["up_to_40"] == {key: printed[key] for key in printed["up_to_40"]}
    assert printed["up_to_40"].keys() | {"signature", "low", "high", "up_to_40"} == printed.keys()


def test_brackets_as_a_table(trees):
    first, title, *rows = brackets("trees").rstrip().split("\n")
    assert first.split()[:2] == ["brackets", "33.33"]
    assert "brackets|parameters:COLLINS|bs:1000|seed:12345|version:" in first
    assert title.split() == ["all", "up", "to", "40", "words"]
    table = dict(row.rsplit(maxsplit=2)[:2] for row in rows)
    assert table["F1"] == table["recall"] == table["precision"] == "33.33"
    assert (table["sentences"], table["errors"], table["average crossing"]) == ("3", "1", "1.00")


def test_brackets_of_a_parameter_file(trees):
    printed = json.loads(brackets("--json", "--parameters", "p.prm", "--bootstrap", "20", "trees"))["brackets"]
    assert (printed["valid"], printed["up_to_2"]["valid"], printed["up_to_2"]["sentences"]) == (2, 1, 2)
    assert printed["signature"].startswith("brackets|parameters:p-")
    assert "bs:20|" in printed["signature"]


def test_brackets_of_trees_over_several_lines(trees):
    printed = json.loads(run("--metric", "brackets", "--reference", "mrg", "--json", "gold"))["brackets"]
    assert (printed["score"], printed["complete_match"], printed["valid"]) == (100, 100, 3)
    assert json.loads(brackets("--json", "mrg"))["brackets"]["score"] == 100


def test_two_outputs_of_trees_are_compared(trees):
    printed = json.loads(brackets("--json", "--bootstrap", "70", "trees", "gold"))
    comparison = compare_brackets([OUTPUT_TREES, GOLD_TREES], GOLD_TREES, bootstrap=70)
    (difference,) = comparison.differences
    other = {"output": "gold", **difference.score.as_object(), "delta": difference.delta, "p": difference.p}
    assert printed == {"brackets": {"output": "trees", **comparison.baseline.as_object(), "compared": [other]}}
    title, first, second = brackets("trees", "gold").rstrip().split("\n")
    assert title.startswith("brackets  brackets|parameters:COLLINS|bs:1000|")
    assert first.split()[:2] == ["trees", "33.33"]
    assert first.endswith("not scored 2  baseline")
    assert second.split()[:2] == ["gold", "100.00"]
    assert "+66.67, p = " in second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "brackets,bleu"], "brackets measures trees, which are no translations: give no other metric"),
        (["--metric", "brackets", "--reference", "gold"], "give no other metric, one reference"),
        (["--metric", "brackets", "--tokenize", "zh"], "--tokenize zh: it is for translations, not for brackets"),
        (["--metric", "brackets", "--language", "de"], "--language de: it is for translations, not for brackets"),
        (["--parameters", "p.prm"], "--parameters p.prm: it is for the metric brackets"),
        (["--metric", "brackets", "--parameters", "gold"], r"gold: line 1: \(S is not a parameter"),
        (["--metric", "brackets", "reference"], "reference: line 1 has 'the' outside of a tree"),
    ],
)
def test_what_does_not_go_with_brackets_is_refused(trees, arguments, message):
    (trees / "reference").write_text("the cat\nsat\n")
    with pytest.raises(ValueError, match=message):
        run("--reference", "gold", *arguments, *([] if "reference" in arguments[2:] else ["trees"]))


def test_the_command_names_sentences_that_are_not_scored(trees):
    program = [sys.executable, "-m", "transduce", "measure", "--metric", "brackets", "--reference", "gold", "trees"]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.startswith("brackets   33.33")
    assert "2 of 3 sentences of the output are not scored" in ended.stderr
    assert "(sentence 2: no words; sentence 3: 'he', not 'it')" in ended.stderr


def test_the_line_from_which_texts_are_out_of_step_is_named(tmp_path):
    lines = [f"{number} {'word ' * (number * 7 % 13)}end{'?' if number % 3 else '.'}" for number in range(300)]
    (tmp_path / "output").write_text("\n".join(lines) + "\n")
    (tmp_path / "reference").write_text("\n".join(lines[:100] + lines[101:]) + "\n")
    place = "the first misaligned line is most likely line 10[0-3]: from there on, line n of"
    counts = "output has 300 lines and .*reference has 299: they must be equally many"
    with pytest.raises(ValueError, match=f"{counts}; {place}"):
        read_paired_texts(str(tmp_path / "output"), str(tmp_path / "reference"))


def test_lines_too_short_for_bleu_are_remarked_on(folder):
    (folder / "short").write_text("Open\nSave as\n")
    for name, is_short in (("short", True), ("perfect", False)):
        result = CliRunner().invoke(app, ["--reference", name, name, "--metric", "bleu,chrf"])
        assert ("no line of the reference has four words, so that BLEU is 0" in result.stderr) == is_short
        assert "chrf" in result.stdout
    assert "four words" not in CliRunner().invoke(app, ["--reference", "short", "short", "--metric", "chrf"]).stderr


def test_one_sentence_has_no_p_value(folder):
    (folder / "one").write_text("the cat sat on a mat\n")
    (folder / "other").write_text("a dog ran\n")
    printed = run("--reference", "one", "one", "other")
    assert "no p-value of one sentence" in printed
    values = json.loads(run("--reference", "one", "one", "other", "--json"))
    assert values["bleu"]["compared"][0]["p"] is None
    trees = "(S (NP (NN owl)) (VP (VBZ eats)))"
    (folder / "gold").write_text(f"{trees}\n")
    (folder / "flat").write_text("(S (NN owl) (VBZ eats))\n")
    assert "no p-value of one sentence" in run("--reference", "gold", "gold", "flat", "--metric", "brackets")
    result = CliRunner().invoke(app, ["--differences", "--reference", "one", "one", "other"], catch_exceptions=False)
    assert result.exit_code == 0
    assert "none" in result.stdout
