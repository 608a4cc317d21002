"""Every `python` block of docs/python.md runs, in order, in one namespace, with a tiny model under the page's names."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(fluent: Path, micro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with what the page names: two models, a recipe with its corpus and a text."""
    for path in micro.iterdir():
        if path.is_file():
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "input.txt").write_text("cat dog\n\nowl and pig\n", "utf-8")
    (tmp_path / "runs").mkdir()
    for name in ("mine", "other"):
        (tmp_path / "runs" / name).symlink_to(fluent)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text("utf-8")
    namespace: dict[str, Any] = {}
    for match in BLOCK.finditer(text):
        language, code = match.groups()
        assert language == "python"
        line = text.count("\n", 0, match.start(2))
        exec(compile("\n" * line + code, str(PAGE), "exec"), namespace)  # errors name the line of the page
    assert len(namespace["translations"]) == 3
    assert str(namespace["ensemble"]) in capsys.readouterr().out
    assert namespace["explanation"].target_text == "tac god"
    assert namespace["last_layer"].sum(axis=-1) == pytest.approx(1, abs=1e-4)
    assert len(namespace["losses"]) == 5 + 2  # the second training goes on after the checkpoint of step 4
    assert (folder / "runs" / "new" / "model.safetensors").is_file()


def test_the_page_is_short_and_shows_every_public_name() -> None:
    text = PAGE.read_text("utf-8")
    assert len(text.split()) <= 900
    for name in ("Translator.load(", ".translate(", ".stream(", ".score(", ".explain(", "Recipe.load(", "train("):
        assert name in text
