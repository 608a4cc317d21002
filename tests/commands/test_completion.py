"""Shells complete commands, options, choices and recipe keys; completion imports no torch unless for recipe keys."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.commands import VERBS
from transduce.commands.options import complete_key
from transduce.recipe.recipe import Recipe
from transduce.settings import key_paths

NO_TORCH = "import sys; sys.modules['torch'] = None; from transduce.commands import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `transduce` for the shells that cannot import torch, and with a model directory."""
    folder = tmp_path_factory.mktemp("completion")
    program = folder / "transduce"
    program.write_text(f"#!{sys.executable}\n{NO_TORCH}\n")
    program.chmod(0o755)
    (folder / "runs" / "mine").mkdir(parents=True)
    return folder


def output(command: list[str], folder: Path, **variables: str) -> list[str]:
    """Returns the lines that a command prints in the folder."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), **variables}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert not ended.stderr
    return ended.stdout.splitlines()


@pytest.fixture(scope="module")
def bash_script(folder: Path) -> str:
    return "\n".join(output(["transduce"], folder, _TRANSDUCE_COMPLETE="source_bash"))


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (["transduce", ""], list(VERBS)),
        (["transduce", "tr"], ["train", "translate", "translate-document", "translate-corpus"]),
        (["transduce", "translate", "--pre"], ["--precision", "--prefix"]),
        (["transduce", "translate", "--precision", "b"], ["bfloat16"]),
        (["transduce", "nonsense", "b"], ["bench"]),  # and no traceback
        (["transduce", "info", "ru"], [""]),  # bash completes file names where the function gives nothing
    ],
)
def test_bash_completes(words: list[str], completions: list[str], folder: Path, bash_script: str) -> None:
    function = re.search(r"-F (\w+) transduce", bash_script)
    assert function is not None
    call = f'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {function[1]} transduce; printf "%s\\n" "${{COMPREPLY[@]}}"'
    assert output(["bash", "--norc", "-c", f"{bash_script}\n{call}", "bash", *words], folder) == completions


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(folder: Path) -> None:
    script = "_TRANSDUCE_COMPLETE=source_fish transduce | source; complete -C"
    lines = output(["fish", "-N", "-c", f"{script} 'transduce '"], folder)
    assert [line.split("\t")[0] for line in lines] == sorted(VERBS)
    assert output(["fish", "-N", "-c", f"{script} 'transduce info ru'"], folder) == ["runs/"]


def test_zsh_receives_a_command_that_offers_every_verb(folder: Path) -> None:
    lines = output(["transduce"], folder, _TRANSDUCE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="transduce ")
    assert re.findall(r'^(?:_arguments .*\(\()?"([\w-]+)":"', "\n".join(lines), flags=re.MULTILINE) == list(VERBS)


def test_no_command_imports_torch_before_its_options_are_complete(folder: Path) -> None:
    script = """
    from transduce.commands import VERBS, app
    import sys, typer
    sys.modules["torch"] = None
    group = typer.main.get_command(app)
    context = typer.Context(group, resilient_parsing=True)
    print(*(verb for verb in VERBS if group.get_command(context, verb).shell_complete(context, "--h")))
    """
    assert output([sys.executable, "-c", script.replace("\n    ", "\n")], folder) == [" ".join(VERBS)]


def test_keys_of_a_recipe() -> None:
    assert set(complete_key("training.s")) >= {"training.steps=", "training.schedule.peak=", "training.seed="}
    # A second completion keeps bash from adding a space after `=`.
    assert complete_key("training.ste") == ["training.steps=", "training.steps=VALUE"]
    assert complete_key("nonsense") == []
    assert "data.train=" in complete_key("")
    assert not [key for key in complete_key("") if key.startswith("data.train.")]
    assert {key.removesuffix("=") for key in complete_key("model.")} <= set(key_paths(Recipe))
