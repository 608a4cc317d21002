"""Confidence in translations: calibration, reasons for doubt, and the commands."""

import json
import math
import shutil

import pytest

from transduce.translation import confidence
from transduce.translation.confidence import Calibration, errors_before_and_after, raw_confidence
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
    before, after = errors_before_and_after(SOURCES, TRANSLATIONS, REFERENCES)
    assert after < before / 2


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


def test_too_few_lines_are_refused():
    for measure, least in ((Calibration.fit, 20), (errors_before_and_after, 40)):
        with pytest.raises(
            ValueError, match=f"{least - 1} translations are too few to calibrate: give {least} or more"
        ):
            measure(*(side[: least - 1] for side in (SOURCES, TRANSLATIONS, REFERENCES)))


def test_the_commands(fluent, tmp_path, command, monkeypatch):
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
    assert command("verify", run)[0] == 0
    (run / "confidence.json").write_text("{}")
    code, _, error = command("translate", run, tmp_path / "in.txt", "--confidence")
    assert (code, "confidence.json" in error) == (2, True), error
