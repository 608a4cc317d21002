"""`draw_attention` and the command `transduce draw`."""

from pathlib import Path

import pytest

from transduce.commands.draw import draw
from transduce.commands.options import MachineChoice, TargetChoice
from transduce.pages import draw_attention
from transduce.translation.results import Explanation
from transduce.translation.translator import Translator


@pytest.mark.parametrize("name", ["attention.pdf", "attention", "html"])
def test_another_suffix_is_refused_with_the_three_named(explanation: Explanation, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"\.html, \.png or \.svg"):
        draw_attention(explanation, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_suffix_in_capitals_is_the_same(explanation: Explanation, tmp_path: Path) -> None:
    draw_attention(explanation, tmp_path / "ATTENTION.HTML")
    assert (tmp_path / "ATTENTION.HTML").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_command_refuses_a_suffix_before_it_looks_for_the_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"attention\.gif"):
        draw(tmp_path / "no-such-model", "A dog.", tmp_path / "attention.gif", TargetChoice(), MachineChoice())


def test_the_command_draws_what_the_translator_explains(
    explanation: Explanation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    class StubTranslator:
        def explain(self, text: str, target: str | None = None) -> Explanation:
            calls.append((text, target))
            return explanation

    monkeypatch.setattr(Translator, "load", lambda run, **request: StubTranslator())
    monkeypatch.setattr("transduce.commands.draw.check_models", lambda runs: None)
    page = tmp_path / "attention.html"
    draw(tmp_path, "The painting.", page, TargetChoice(), MachineChoice(), target="Das Gemälde.")
    assert calls == [("The painting.", "Das Gemälde.")]
    draw_attention(explanation, tmp_path / "expected.html")
    assert (tmp_path / "attention.html").read_bytes() == (tmp_path / "expected.html").read_bytes()
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'attention.html'}\n"
    assert explanation.target_text in printed.err
