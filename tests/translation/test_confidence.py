"""Confidence in translations: calibration, reasons for doubt, and the commands."""

import json
import math
import shutil

import pytest

from transduce.commands.options import Engine
from transduce.commands.translate import calibrated_run
from transduce.model_directory.manifest import fingerprint
from transduce.recipe import corpora_of_run
from transduce.text.copied_names import Names
from transduce.translation import confidence
from transduce.translation.confidence import Calibration, measure_reliability, raw_confidence
from transduce.translation.results import Translation


def translation(text, probability):
    """A translation of three tokens and the end, each of the same probability."""
    return Translation(text, 4 * math.log(probability), 0.0, [3, 4, 5])


SOURCES = [f"line {number}" for number in range(40)]
REFERENCES = [f"zeile {number}" for number in range(40)]
# The first half is wrong, with a low probability; the rest is right.
TRANSLATIONS = [
    translation(f"zeile {n}" if n >= 20 else "quark xx", 0.5 + n / 100 if n >= 20 else 0.2 + n / 100) for n in range(40)
]


@pytest.fixture(scope="module")
def calibration():
    return Calibration.fit(SOURCES, TRANSLATIONS, REFERENCES)


def test_a_score_becomes_the_quality_that_such_scores_had(calibration):
    low = calibration.assess("line 5", translation("quark 5", 0.25)).confidence
    high = calibration.assess("line 5", translation("zeile 5", 0.8)).confidence
    assert low < 0.2
    assert high == pytest.approx(1.0)
    assert raw_confidence(translation("x", 0.25)) == pytest.approx(0.25)


def test_calibration_lowers_the_error():
    reliability = measure_reliability(SOURCES, TRANSLATIONS, REFERENCES)
    assert reliability.after.error < reliability.before.error / 2
    for curve in (reliability.before, reliability.after):
        assert sum(curve.histogram) == sum(one.sentences for one in curve.bins) == len(SOURCES)


@pytest.mark.parametrize(
    ("source", "output", "probability", "doubts"),
    [
        ("line 5", "zeile 5", 0.8, ()),
        ("line 5", "zeile 5", 0.1, ("low",)),
        ("line 5", "zeile 6", 0.8, ("numbers",)),
        ("a line", "ei ei ei ei ei", 0.8, ("repetition", "long")),
        ("a rather long line without numbers", "zeile", 0.8, ("short",)),
        ("", "", 0.8, ()),
    ],
)
def test_reasons_for_doubt(calibration, source, output, probability, doubts):
    assert calibration.assess(source, translation(output, probability)).doubts == doubts


def test_a_missing_name_is_a_reason_for_doubt(calibration):
    names = Names(known=("Anna",), ordinary=None)
    with_names = Calibration.fit(SOURCES, TRANSLATIONS, REFERENCES, names=names)
    assert with_names.assess("Anna 5", translation("zeile 5", 0.8)).doubts == ("names",)
    assert with_names.assess("Anna 5", translation("Annas 5", 0.8)).doubts == ()
    assert calibration.assess("Anna 5", translation("zeile 5", 0.8)).doubts == ()


def test_a_calibration_is_read_as_it_was_written(calibration, fluent, tmp_path):
    run = shutil.copytree(fluent, tmp_path / "run")
    with_names = Calibration.fit(
        SOURCES, TRANSLATIONS, REFERENCES, names=Names(known=("Anna",), ordinary=("a", "line"))
    )
    for fitted in (calibration, with_names):
        fitted.write(run)
        assert json.loads((run / "confidence.json").read_text())["model"] == fingerprint(run)
        assert Calibration.read(run) == fitted.replaced(model=fingerprint(run))


def test_too_few_lines_are_refused():
    for measure, least in ((Calibration.fit, 20), (measure_reliability, 40)):
        with pytest.raises(
            ValueError, match=f"{least - 1} translations are too few to calibrate: give {least} or more"
        ):
            measure(*(side[: least - 1] for side in (SOURCES, TRANSLATIONS, REFERENCES)))


def test_the_commands(fluent, trained, tmp_path, command, monkeypatch):
    run = shutil.copytree(fluent, tmp_path / "run")
    code, _, error = command("calibrate", run)
    assert (code, "are too few to calibrate: give 40 or more" in error) == (2, True), error
    assert not (run / "confidence.json").exists()
    monkeypatch.setattr(confidence, "LEAST_PAIRS", 3)
    (tmp_path / "in.txt").write_text("cat dog owl\n\nthe owl saw 3 moles\n")
    code, _, error = command("translate", run, tmp_path / "in.txt", "--confidence")
    assert (code, f"make it with `transduce calibrate {run}`" in error) == (2, True), error
    code, out, error = command("calibrate", run)
    assert (code, out.startswith("calibration error  before 0.")) == (0, True), (out, error)
    assert "names: " in error
    assert "of the references lack one" in error
    code, out, error = command("translate", run, tmp_path / "in.txt", "--confidence")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [len(row) for row in rows] == [3, 3, 3]
    assert rows[1] == ["", "1.000", ""]
    assert all(0 <= float(row[1]) <= 1 for row in rows)
    code, out, error = command("translate", run, tmp_path / "in.txt", "--confidence", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert [f"{record['confidence']:.3f}" for record in records] == [row[1] for row in rows]
    for record in records:
        words, text = record["words"], record["translations"][0]["text"]
        assert [word for word, _ in words] == text.split()
        assert all(0 < probability <= 1 for _, probability in words)
    code, _, error = command("translate", run, tmp_path / "in.txt", "--confidence", "--scores")
    assert (code, "--confidence: its table has no columns" in error) == (2, True), error
    code, _, error = command("translate", run, run, tmp_path / "in.txt", "--confidence")
    assert (code, "not for an ensemble: name one model" in error) == (2, True), error
    (imported := shutil.copytree(run, tmp_path / "imported")).joinpath("recipe.yaml").unlink()
    for arguments in (["calibrate", imported], ["evaluate", imported, "--test", "news"]):
        code, _, error = command(*arguments)
        assert (code, "has no recipe.yaml, as an imported model" in error) == (2, True), error
    with pytest.raises(ValueError, match="is an export, which has no calibration: name its run instead"):
        calibrated_run([tmp_path], Engine.CTRANSLATE2)
    assert calibrated_run([run], Engine.CTRANSLATE2) == run
    assert command("info", run, "--verify")[0] == 0
    fitted, picture = (run / "confidence.json").read_bytes(), tmp_path / "picture.svg"
    code, _, error = command("calibrate", run, "--out", picture)
    assert (code, picture.read_text().startswith("<?xml")) == (0, True), error
    assert (run / "confidence.json").read_bytes() == fitted
    for path, message in ((picture, "--overwrite"), (tmp_path / "picture.pdf", "must end in .html, .png or .svg")):
        code, _, error = command("calibrate", run, "--out", path)
        assert (code, message in error) == (2, True), error

    def read_pairs(corpus):
        raise ValueError("the file has moved")

    monkeypatch.setattr(corpora_of_run, "read_byte_pairs", read_pairs)
    code, _, error = command("calibrate", run)
    assert (code, "the training text cannot be read, so that no names are known: the file has moved" in error) == (
        0,
        True,
    ), error
    other = shutil.copytree(trained, tmp_path / "other")
    shutil.copy(run / "confidence.json", other)
    code, _, error = command("translate", other, tmp_path / "in.txt", "--confidence")
    assert (code, "was made for other weights or settings than" in error) == (2, True), error
    (run / "confidence.json").write_text("{}")
    code, _, error = command("translate", run, tmp_path / "in.txt", "--confidence")
    assert (code, "confidence.json" in error) == (2, True), error
