"""Every command: help, exit codes, standard output and standard error."""

import importlib
import inspect
import os
import signal
import subprocess
import sys

import pytest

from micro_run import Moment, forked
from transduce.commands import VERBS, main, python_name

HELP = """
import sys
from transduce.commands import VERBS, main
for arguments in [["--help"], ["trian"], ["info", "--bogus"], *([verb, "--help"] for verb in VERBS)]:
    sys.argv = ["transduce", *arguments]
    try:
        main()
    except SystemExit as leaving:
        assert leaving.code == (0 if "--help" in arguments else 2), (arguments, leaving.code)
for slow in ("torch", "numpy", "tokenizers", "matplotlib", "sacrebleu", "rich"):
    assert slow not in sys.modules, slow
"""


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_has_a_module_with_its_function(verb):
    function = getattr(importlib.import_module(f"transduce.commands.{python_name(verb)}"), python_name(verb))
    assert inspect.isfunction(function)
    assert function.__doc__
    lines = inspect.getsource(inspect.getmodule(function)).split("\n")
    assert lines[0].startswith(f'"""`transduce {verb}`')


def test_help_and_usage_errors_import_no_slow_library():
    began = os.times()
    ended = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, timeout=60)
    finished = os.times()
    assert ended.returncode == 0, ended.stderr
    for verb in VERBS:
        assert f"transduce {verb} [OPTIONS]" in ended.stdout or f"-c {verb} [OPTIONS]" in ended.stdout
    # Processor time, which does not depend on the load of the machine.
    assert finished.children_user - began.children_user < 2


def code_of(*arguments):
    with pytest.raises(SystemExit) as leaving:
        main(list(arguments))
    return leaving.value.code


def test_the_version(capsys):
    from transduce import __version__

    assert code_of("--version") == 0
    assert capsys.readouterr().out == f"transduce {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "no command `trian`; did you mean `train`?"),
        (["frobnicate"], "no command `frobnicate`"),
        (["info"], "Missing argument"),
        (["info", "base", "--vocabulry", "7"], "--vocabulry"),
        (["info", "base", "--vocabulary", "many"], "--vocabulary"),
        (["info", "base", "--vocabulary", "3"], "--vocabulary"),
        (["info", "nobody"], "nobody is not a preset (base, big, "),
        (["info", "/nowhere/at/all", "--verify"], "there is no model directory /nowhere/at/all; "),
        (["translate", "/nowhere/at/all"], "there is no model directory /nowhere/at/all; "),
        (["train", "/nowhere.yaml", "--out", "/tmp"], "there is no recipe /nowhere.yaml"),
        (["measure", "--reference", "/nowhere", "/nowhere/too"], "/nowhere"),
        (["average", "here", "--out", "there"], "--last N"),
        (["average", "here", "--out", "there", "--last", "2", "x"], "write a whole number"),
        (["average", "here", "7", "--out", "there", "--last", "2"], "--last N"),
        (["paper", "table1", "--seeds", "3"], "--seeds 3: table1 has one seed; leave it out"),
        (["paper", "table1", "--minutes", "3"], "--minutes 3: Table 1 trains nothing"),
        (["paper", "table1", "--scale", "paper"], "--scale paper: Table 1 has sizes of its own"),
    ],
)
def test_faulty_input_has_a_message_and_code_2(arguments, message, capsys, monkeypatch):
    # A command that reads standard input before it checks its arguments fails here with another message.
    monkeypatch.setattr("sys.stdin", None)
    assert code_of(*arguments) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error
    assert "Traceback" not in error


def test_a_model_directory_that_is_none_is_code_2(tmp_path, capsys):
    (tmp_path / "file").write_text("text")
    for verb in (
        ["info", "--verify"],
        ["evaluate", "--source", "a", "--reference", "b"],
        ["info"],
        ["draw", "--out", "a.html"],
    ):
        for place in (tmp_path, tmp_path / "file", tmp_path / "nothing"):
            last = ["a sentence"] if verb[0] == "draw" else []
            assert code_of(verb[0], str(place), *last, *verb[1:]) == 2
            message = capsys.readouterr().err
            assert message.startswith("transduce: ")
            assert "Traceback" not in message


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("name, place and remedy"), 2, "transduce: name, place and remedy\n"),
        (
            FileNotFoundError(2, "No such file or directory", "a.txt"),
            2,
            "transduce: a.txt: no such file or directory\n",
        ),
        (OSError("disk"), 2, "transduce: disk\n"),
        (RuntimeError("diverged"), 1, "transduce: diverged\n"),
        (MemoryError(), 1, "transduce: MemoryError: \n"),
        (AssertionError("ours"), 1, "transduce: AssertionError: ours\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_exit_codes_and_messages(monkeypatch, capsys, error, code, message):
    def failing(*arguments, **options):
        raise error

    monkeypatch.setattr("transduce.recipe.model_summary.summarise_model", failing)
    monkeypatch.delenv("TRANSDUCE_DEBUG", raising=False)
    assert code_of("info", "base") == code
    assert capsys.readouterr() == ("", message)
    monkeypatch.setenv("TRANSDUCE_DEBUG", "1")
    assert code_of("info", "base") == code
    assert ("Traceback" in capsys.readouterr().err) == (code in (1, 2))


def test_a_closed_pipe_is_no_error():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "transduce", "info", "base"],
        stdout=write,
        stderr=subprocess.PIPE,
        env=environment,
        timeout=60,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_diverged_training_is_code_1(micro, tmp_path):
    rate = "training.schedule={kind: inverse_square_root, warmup: 1, peak: 1e38}"
    ended = forked("train", micro / "recipe.yaml", "--out", tmp_path, "--set", rate)
    assert (ended.code, ended.out) == (1, "")
    assert "transduce: training diverged at step " in ended.error
    assert "--set training.clip=1.0" in ended.error
    assert "Traceback" not in ended.error


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_before_the_training(micro, tmp_path, number, code):
    moment = Moment("encoding the corpus", number)
    ended = forked("train", micro / "recipe.yaml", "--out", tmp_path, moment=moment)
    assert (ended.code, ended.out) == (code, "")
    assert "Traceback" not in ended.error
