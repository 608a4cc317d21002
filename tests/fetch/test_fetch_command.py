"""The command `transduce fetch`."""

import json

import pytest
from fetch_world import PAIRS

from transduce.commands import main


@pytest.fixture
def command(world, monkeypatch, capsys):
    """A function that runs `fetch` with the small catalogue; returns exit code, standard output and standard error."""
    monkeypatch.setattr("transduce.fetch.catalogue.CATALOGUE", world.written())
    monkeypatch.delenv("TRANSDUCE_DATA", raising=False)

    def run(*arguments):
        with pytest.raises(SystemExit) as leaving:
            main(["fetch", *map(str, arguments)])
        return leaving.value.code, *capsys.readouterr()

    return run


def test_files_go_to_standard_output_and_progress_to_standard_error(world, command):
    code, printed, messages = command("multi30k", "--out", world.out)
    assert code == 0
    world.holds("multi30k")
    lines = printed.splitlines()
    assert len(lines) == 12
    size = (world.out / "multi30k" / "train.en").stat().st_size
    assert lines[0] == f"{world.out}/multi30k/train.en: {PAIRS} lines, {size:,} bytes"
    assert f"multi30k/train.en.gz from {world.server.url}/one/multi30k/train.en.gz" in messages
    assert messages.splitlines()[-1].endswith(f"export TRANSDUCE_DATA={world.out}")
    assert "\r" not in messages


def test_transduce_data_is_the_default_folder(world, command, monkeypatch):
    monkeypatch.setenv("TRANSDUCE_DATA", str(world.out))
    code, _, messages = command("multi30k")
    assert code == 0
    world.holds("multi30k")
    assert "export" not in messages


def test_json_has_the_parts_of_the_manifest(world, command):
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
def test_errors_of_the_user_exit_with_code_2(world, command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, printed, messages = command(*arguments)
    assert (code, printed) == (2, "")
    assert messages.startswith(f"transduce: {message}")
    assert "Traceback" not in messages
    assert not (tmp_path / "x").exists()


def test_unavailable_text_exits_with_code_1(world, command):
    world.server.files.clear()
    code, printed, messages = command("multi30k", "--out", world.out)
    assert (code, printed) == (1, "")
    assert "transduce: train could not be fetched." in messages
    assert "HTTP 404 Not Found" in messages


def test_an_invalid_manifest_is_reported(world, command):
    path = world.out / "multi30k" / "manifest.json"
    path.parent.mkdir(parents=True)
    for text, message in (("{}", "is not a manifest of `fetch`"), ('{"version": 9, "parts": {}}', "has version 9")):
        path.write_text(text, "utf-8")
        code, _, messages = command("multi30k", "--out", world.out)
        assert code == 2
        assert f"{path} {message}" in messages
