"""The command line on a terminal: help, completion, --overwrite, control characters, progress bars, log records."""

import json
import os
import pty
import subprocess
import sys

import pytest

from micro_run import forked, forked_on_terminal
from transduce.commands import main
from transduce.commands.console import aligned_table, escape_control_characters
from transduce.commands.output_file import check_writable


@pytest.mark.parametrize("arguments", [[], ["-h"], ["translate", "-h"]])
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    printed = capsys.readouterr()
    assert (leaving.value.code, printed.err) == (0, "")
    assert printed.out.lstrip().startswith("Usage: ")


def test_completion_of_commands():
    environment = {"_TRANSDUCE_COMPLETE": "complete_bash", "COMP_WORDS": "transduce tra", "COMP_CWORD": "1"}
    code = "import sys; sys.argv[0] = 'transduce'; from transduce.commands import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.split() == ["train", "translate", "translate-document", "translate-corpus"]


def test_control_characters_are_escaped():
    text = "a\x1b[31m\x07\x9b\u202eb\r\tü\n\udcff"
    assert escape_control_characters(text) == "a\\x1b[31m\\x07\\x9b\\u202eb\\x0d\tü\n\\udcff"


def test_control_characters_are_escaped_only_on_a_terminal(tmp_path):
    arguments = "fetch", "embedded", f"--out={tmp_path}/a\x1b]0;title\x07"
    assert "\x1b]0;title\x07" in forked(*arguments).out
    script = tmp_path / "script.py"
    script.write_text("from transduce.commands import main\nmain()\n")
    printed = forked_on_terminal(script, *arguments)
    assert "\x1b" not in printed
    assert "\\x1b]0;title\\x07" in printed


def test_an_output_file_is_overwritten_only_on_request(fluent, micro, tmp_path):
    out = tmp_path / "out"
    out.write_text("before\n")
    for verb in (["translate", fluent, micro / "test.en"], ["evaluate", fluent, "--test", "spare"]):
        out.write_text("before\n")
        ended = forked(*verb, "--out", out)
        assert (ended.code, out.read_text()) == (2, "before\n")
        assert "add --overwrite" in ended.error
        assert forked(*verb, "--out", out, "--overwrite").code == 0
        assert out.read_text().count("\n") == 5


def test_devices_and_empty_files_are_written_to(tmp_path):
    (tmp_path / "empty").touch()
    check_writable(tmp_path / "empty")
    os.mkfifo(tmp_path / "fifo")
    check_writable(tmp_path / "fifo")


def test_evaluate_has_a_length_penalty(fluent):
    report = json.loads(forked("evaluate", fluent, "--test", "spare", "--length-penalty", 0.5, "--json").out)
    assert report["decoding"]["length_penalty"] == 0.5


def test_tables_align_numbers_right_and_text_left():
    assert aligned_table([("a", "1,200 ms"), ("bcd", "3 /s")]) == "a    1,200 ms\nbcd      3 /s"
    assert aligned_table([("a", "12"), ("bcd", "text")]) == "a    12\nbcd  text"


def test_a_bar_is_shown_on_a_terminal_and_nowhere_else():
    code = """
from transduce.commands import progress_bars
from transduce.commands.console import progress_on_terminal, say
from transduce.runtime.progress import track
progress_bars.FIRST_SECONDS = progress_bars.REFRESH_SECONDS = -1
with progress_on_terminal(), track("counting", 4_000) as outer, track("inner") as inner:
    outer.update(1_000, "loss 3.2")
    inner.advance(2)
    say("a line " + "x" * 10)
    outer.update(4_000)
print("end")
"""
    terminal, stream = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    for rank in ("0", "1"):
        values = environment | {"RANK": rank}
        ended = subprocess.run([sys.executable, "-c", code], env=values, stdout=stream, stderr=stream, timeout=60)
        printed = os.read(terminal, 100_000).decode()
        assert (ended.returncode, "a line xxxxxxxxxx\r\n" in printed) == (0, True)
        assert all((text in printed) == (rank == "0") for text in ("counting", "1,000/4,000", "loss 3.2", "inner"))
        assert "\x1b[?25l" not in printed  # the cursor is not hidden
        assert printed.endswith("end\r\n")
    piped = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (piped.stdout, piped.stderr) == (b"end\n", b"a line xxxxxxxxxx\n")


def test_a_training_on_a_terminal_has_a_bar(micro, tmp_path):
    script = tmp_path / "command.py"
    script.write_text("""
from transduce.commands import main, progress_bars
progress_bars.FIRST_SECONDS = progress_bars.REFRESH_SECONDS = -1
main()
""")
    command = ["train", micro / "recipe.yaml", "--out", tmp_path / "run"]
    printed = forked_on_terminal(script, *command, TERM="xterm", COLUMNS="150")
    for text in ("encoding", "training", "12/12", "tokens/s", "translating", "validating"):
        assert text in printed


def test_log_records_are_shown(capsys, monkeypatch):
    import logging

    def summarise_model(*_):
        logging.getLogger("transduce.model").info("compiling takes ten seconds")
        raise ValueError("end")

    monkeypatch.setattr("transduce.recipe.model_summary.summarise_model", summarise_model)
    with pytest.raises(SystemExit):
        main(["info", "base"])
    assert capsys.readouterr().err == "compiling takes ten seconds\ntransduce: end\n"
