"""The picture of a calibration: a figure in PNG or SVG, or a page with the figure and its points."""

import re

import pytest

from transduce.measure.calibration import ReliabilityBin, ReliabilityCurve, reliability_curve
from transduce.pages import draw_calibration

BEFORE = reliability_curve([0.125, 0.225, 0.325, 0.975], [0.25, 0.5, 0.125, 0.75])
AFTER = ReliabilityCurve(
    error=0.125,
    bins=tuple(ReliabilityBin(sentences=n + 1, prediction=n / 4, quality=n / 5) for n in range(4)),
    histogram=(3, 0, 7),
)


def test_the_curve_has_means_of_bins_and_counts_of_bars():
    assert [(one.sentences, one.prediction, one.quality) for one in BEFORE.bins] == [
        (1, 0.125, 0.25),
        (1, 0.225, 0.5),
        (1, 0.325, 0.125),
        (1, 0.975, 0.75),
    ]
    assert BEFORE.error == pytest.approx((0.125 + 0.275 + 0.2 + 0.225) / 4)
    assert [bar for bar, count in enumerate(BEFORE.histogram) if count] == [2, 4, 6, 19]
    wide = reliability_curve([n / 40 for n in range(25)], [0.5] * 25)
    assert [one.sentences for one in wide.bins] == [3] * 5 + [2] * 5


@pytest.mark.parametrize(("suffix", "beginning"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype")])
def test_equal_calibrations_give_equal_files(suffix, beginning, tmp_path):
    paths = [tmp_path / f"{number}.{suffix}" for number in range(2)]
    for path in paths:
        draw_calibration(BEFORE, AFTER, path)
    first, second = (path.read_bytes() for path in paths)
    assert first.startswith(beginning)
    assert first == second
    draw_calibration(AFTER, BEFORE, paths[1])
    assert paths[1].read_bytes() != first


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_the_figure_names_the_errors(suffix, tmp_path):
    draw_calibration(BEFORE, AFTER, tmp_path / f"figure.{suffix}")
    text = (tmp_path / f"figure.{suffix}").read_text("utf-8")
    for words in ("before: probability of a token", f"calibration error {BEFORE.error:.3f}", "calibration error 0.125"):
        assert words in text
    assert "mean chrF / 100" in text


def test_the_page_has_the_points_and_needs_no_network(tmp_path):
    draw_calibration(BEFORE, AFTER, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 4  # two diagrams, two histograms
    assert page.count("<circle") == 4 + 4
    assert "10 translations of a validation set" in page
    assert "<td>4</td><td>0.975</td><td>0.750</td><td>0.750</td><td>0.600</td>" in page
    assert not re.search(r"(?:src|href)=['\"]http", page)


def test_another_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must end in .html, .png or .svg"):
        draw_calibration(BEFORE, AFTER, tmp_path / "c.pdf")
