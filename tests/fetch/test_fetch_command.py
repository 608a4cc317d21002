"""`transduce fetch` as a user types it."""

import json

import pytest
from fetch_world import PAIRS

from transduce.commands import main


@pytest.fixture
def command(world, monkeypatch, capsys):
    """Runs the verb with the small catalogue; the exit code, what it printed, and what it said."""
    monkeypatch.setattr("transduce.fetch.catalogue.CATALOGUE", world.written())
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)

    def run(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main(["fetch", *map(str, arguments)])
        return leaving.value.code, *capsys.readouterr()

    return run


def test_the_files_are_printed_and_the_rest_is_said(world, command):
    code, printed, said = command("multi30k", "--out", world.out)
    assert code == 0
    world.holds("multi30k")
    lines = printed.splitlines()
    assert len(lines) == 12
    size = (world.out / "multi30k" / "train.en").stat().st_size
    assert lines[0] == f"{world.out}/multi30k/train.en: {PAIRS} lines, {size:,} bytes"
    assert f"multi30k/train.en.gz from {world.server.url}/one/multi30k/train.en.gz" in said
    assert said.splitlines()[-1].endswith(f"export TRANSDUCE_DATA={world.out}")
    assert "\r" not in said


def test_the_folder_of_the_recipes_is_the_default(world, command, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(world.out))
    code, _, said = command("multi30k")
    assert code == 0
    world.holds("multi30k")
    assert "export" not in said


def test_json_says_what_the_manifest_does(world, command):
    code, printed, _ = command("multi30k", "--out", world.out, "--json")
    assert code == 0
    manifest = json.loads((world.out / "multi30k" / "manifest.json").read_text("utf-8"))
    assert json.loads(printed) == {
        "corpus": "multi30k",
        "folder": str(world.out / "multi30k"),
        "parts": manifest["parts"],
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["multi30k"], "no folder for the data: add `--out DIR`, or set the folder for the recipes too"),
        (
            ["wmt14-en-d", "--out", "x"],
            "there is no corpus `wmt14-en-d`; did you mean `wmt14-en-de`? corpora: wmt14-en-de",
        ),
        (["multi30k", "--out", "x", "--from", "nowhere"], "--from nowhere: there is no such folder"),
    ],
)
def test_what_is_the_users_to_mend_is_said_with_code_2(world, command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, printed, said = command(*arguments)
    assert (code, printed) == (2, "")
    assert said.startswith(f"transduce: {message}")
    assert "Traceback" not in said
    assert not (tmp_path / "x").exists()


def test_what_nobody_gives_is_told_with_code_1(world, command):
    world.server.files.clear()
    code, printed, said = command("multi30k", "--out", world.out)
    assert (code, printed) == (1, "")
    assert "transduce: train could not be had." in said
    assert "HTTP 404 Not Found" in said


def test_a_manifest_that_is_none_is_told(world, command):
    path = world.out / "multi30k" / "manifest.json"
    path.parent.mkdir(parents=True)
    for text, message in (("{}", "is no manifest of `fetch`"), ('{"version": 9, "parts": {}}', "has version 9")):
        path.write_text(text, "utf-8")
        code, _, said = command("multi30k", "--out", world.out)
        assert code == 2
        assert f"{path} {message}" in said
