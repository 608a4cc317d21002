"""The fonts of a figure: chosen by their characters, also when they are new; one warning where none has them."""

import logging
import shutil
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import font_manager, ft2font

from transduce.pages import draw_attention
from transduce.pages.figure_style import choose_fonts, warn_of_missing, warn_of_order
from transduce.translation.results import Explanation

FOLDER = Path(mpl.get_data_path(), "fonts", "ttf")
ENTRIES = {
    name: next(entry for entry in font_manager.fontManager.ttflist if Path(entry.fname) == FOLDER / f"{name}.ttf")
    for name in ("DejaVuSans", "STIXGeneral", "cmr10")
}
SCRIPT_A = "\U0001d49c"  # mathematical script A, in STIXGeneral and not in DejaVu Sans


@pytest.fixture(autouse=True)
def fonts(monkeypatch: pytest.MonkeyPatch) -> list[font_manager.FontEntry]:
    """Matplotlib lists no font but DejaVu Sans and Computer Modern, and the system has none."""
    listed = [ENTRIES["cmr10"], ENTRIES["DejaVuSans"]]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", listed)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [])
    return listed


@pytest.mark.parametrize("text", ["", "Gemälde", "שלום עולם", "مرحبا", "a\x00\u200d \u3000"])
def test_the_font_of_matplotlib_is_enough_for_its_characters(text: str) -> None:
    assert choose_fonts(text) == (["DejaVu Sans"], set())


def test_another_font_is_chosen_for_its_characters(fonts: list[font_manager.FontEntry]) -> None:
    assert choose_fonts(f"a{SCRIPT_A}") == (["DejaVu Sans"], {SCRIPT_A})
    fonts.append(ENTRIES["STIXGeneral"])
    assert choose_fonts(f"a{SCRIPT_A}猫") == (["DejaVu Sans", "STIXGeneral"], {"猫"})


def test_a_font_that_was_just_installed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FOLDER / "STIXGeneral.ttf", tmp_path / "new.ttf")
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [str(path) for path in tmp_path.iterdir()])
    assert choose_fonts(SCRIPT_A) == (["DejaVu Sans", "STIXGeneral"], set())


def test_a_png_with_boxes_gives_one_warning(
    explanation: Explanation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    boxes = explanation._replace(source_text="我有一只猫 हिन्दी", target_text="שלום")
    draw_attention(boxes, tmp_path / "picture.svg")
    assert not caplog.records
    draw_attention(boxes, tmp_path / "picture.png")
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith("warning: no installed font has ")
    assert " more, which the picture shows as boxes" in message
    assert "such as Debian's fonts-noto-cjk, fonts-noto-core, fonts-symbola, or draw into .html" in message


@pytest.mark.parametrize(
    ("character", "package"),
    [("猫", "cjk"), ("か", "cjk"), ("한", "cjk"), ("अ", "core"), ("\U0001f9ff", "fonts-symbola")],
)
def test_the_package_of_a_script_is_named(character: str, package: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_missing({character})
    assert package in caplog.text
    assert f"no installed font has {character}, which" in caplog.text


def test_an_older_matplotlib_writes_from_left_to_right(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ft2font, "__libraqm_version__", "0.10", raising=False)
    warn_of_order("שלום")
    assert not caplog.records
    monkeypatch.delattr(ft2font, "__libraqm_version__")
    warn_of_order("hello 猫")
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        warn_of_order("a مرحبا")
    assert "install Matplotlib 3.11 or newer, or draw into .svg or .html" in caplog.text
