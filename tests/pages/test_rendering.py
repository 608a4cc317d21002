"""What holds for all pages: escapes, visible control characters, no forgotten variable, no address of another host."""

import re
from importlib import resources

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from transduce.pages.charts import round_ticks
from transduce.pages.rendering import render, visible

ASSETS = resources.files("transduce.pages") / "assets"


def test_a_value_is_escaped_and_its_control_characters_are_visible() -> None:
    page = render("attention.html.jinja", source="<b>&\x01\udce4", target="$x {{ 1 }}", record={"a": "</script>\x01"})
    assert '<dd lang="" dir="auto" translate="no">&lt;b&gt;&amp;␁?</dd>' in page
    assert "$x {{ 1 }}" in page
    assert '{"a":"\\u003c/script\\u003e\\u0001"}' in page
    assert visible(Markup("\x01")) == "\x01"
    assert visible(3) == 3


def test_a_variable_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'target' is undefined"):
        render("attention.html.jinja", source="", record={})


def test_only_pages_with_a_script_may_run_one() -> None:
    attention = render("attention.html.jinja", source="", target="", record={})
    assert "script-src 'unsafe-inline'" in attention
    calibration = render("calibration.html.jinja", sentences=0, figures=[], points=[])
    assert "script-src" not in calibration
    for page in (attention, calibration):
        assert "default-src 'none'" in page
        assert "prefers-color-scheme: dark" in page
        assert "@media print" in page


def test_the_style_sheet_defines_every_colour_that_it_uses() -> None:
    style = (ASSETS / "style.css").read_text("utf-8")
    light, dark = (set(re.findall(r"(--[\w-]+):", block)) for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL))
    assert light == dark
    of_elements = {"--colour", "--row", "--heads", "--weight", "--opacity"}
    assert set(re.findall(r"var\((--[\w-]+)\)", style)) <= light | of_elements


@pytest.mark.parametrize(
    ("values", "ticks"),
    [((0.2, 0.9), (0.2, 0.4, 0.6, 0.8, 1)), ((2.31, 7.98), (2, 4, 6, 8)), ((0, 0), (0, 0.2)), ((3, 3), (3, 4))],
)
def test_ticks_are_round_and_enclose_the_values(values: tuple[float, float], ticks: tuple[float, ...]) -> None:
    assert round_ticks(values) == pytest.approx(ticks)
