"""The page that compares two systems: marks, escapes, and its drawing in a browser."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_attention_page import CHROMIUM, Outline, browse

from transduce.pages import draw_comparison
from transduce.pages.comparison_page import mark_differences
from transduce.pages.system_comparison import compare_systems

REFERENCE = ["the </script><b>cat</b> sat on the mat & slept", "שלום עולם", "我有一只猫", "so $it goes\x01"]
FIRST = ["the </script><b>cat</b> lay on a mat & slept", "שלום לך", "我有一只猫", "so $it goes"]
SECOND = ["a <img src=x onerror=alert(1)> sat on the mat", "שלום עולם", "我有狗", "it"]
SOURCE = ["<i>1</i>", "2", "3", "4"]


def draw(path: Path) -> str:
    comparison = compare_systems((FIRST, SECOND), REFERENCE, bootstrap=5)
    rows = zip(SOURCE, REFERENCE, FIRST, SECOND, strict=True)
    texts = [list(zip(("source", "reference", "A", "B"), row, strict=True)) for row in rows]
    draw_comparison(comparison, ("one<b>.txt", "two\udce4.txt"), texts, path)
    return path.read_text("utf-8")


@pytest.mark.parametrize(
    ("output", "other", "reference", "expected"),
    [
        ("a b c", "a b c", "x", "a b c"),
        ("a b c", "a x c", "a b", "a [right:b] c"),
        ("a b c", "a x c", "a y", "a [wrong:b] c"),
        ("a b c d", "a d", "b c", "a [right:b c] d"),
        ("a b c d", "a d", "b", "a [right:b] [wrong:c] d"),
        ("cat, dog", "cat dog", "cat, dog", "cat[right:,] dog"),
        ("我有猫", "我有狗", "我有猫", "我有[right:猫]"),
        ("", "a", "b", ""),
        ("नमस्ते दुनिया", "दुनिया", "नमस्ते", "[right:नमस्ते] दुनिया"),
    ],
)
def test_words_of_one_output_are_marked(output: str, other: str, reference: str, expected: str) -> None:
    pieces = mark_differences(output, other, reference)
    assert "".join(f"[{mark}:{text}]" if mark else text for text, mark in pieces) == expected


@given(st.text("ab ,猫\t"), st.text("ab ,猫"), st.text("ab ,猫"))
def test_the_pieces_of_an_output_are_the_output(output: str, other: str, reference: str) -> None:
    pieces = mark_differences(output, other, reference)
    assert "".join(piece.text for piece in pieces) == output
    assert all(piece.mark is None for piece in mark_differences(output, output, reference))


def test_a_very_long_text_is_not_marked() -> None:
    assert [piece.mark for piece in mark_differences("a " * 600, "b", "c")] == [None]


def test_the_page_is_well_formed_and_escapes_every_text(tmp_path: Path) -> None:
    page = draw(tmp_path / "page.html")
    outline = Outline()
    outline.feed(page.replace("<br>", ""))
    outline.close()
    assert outline.open == []
    tags = [tag for tag, _ in outline.elements]
    assert not {"script", "img"} & set(tags)
    assert [
        values for tag, values in outline.elements if tag == "b" and values.get("class") not in ("run0", "run1")
    ] == []
    assert "one<b>.txt" in outline.texts["dd"]
    assert "two?.txt" in outline.texts["dd"]
    assert "so $it goes␁" in outline.texts["dd"]
    sentences = [values for tag, values in outline.elements if tag == "dd" and "lang" in values]
    assert {values["dir"] for values in sentences} == {"auto"}


def test_the_page_needs_no_network_and_repeats(tmp_path: Path) -> None:
    page = draw(tmp_path / "page.html")
    assert not re.search(r"https?:|@import|url\(", page)
    assert [
        address for address in re.findall(r'(?:href|src)="([^"]*)"', page) if not address.startswith(("#", "data:"))
    ] == []
    assert draw(tmp_path / "again.html") == page


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_the_page_without_a_message(tmp_path: Path) -> None:
    draw(tmp_path / "page.html")
    document = browse(tmp_path / "page.html", "#sentences", tmp_path / "profile")
    assert '<mark class="wrong">lay</mark>' in document
    assert '<mark class="right">sat</mark>' in document
