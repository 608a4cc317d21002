"""`transduce translate` of a pipe and a terminal, and the lines that a stopped command leaves."""

import json
import os
import pty
import select
import signal
import subprocess
import sys

import pytest

from micro_run import forked


def read_until(descriptor, end, seconds=60):
    """Reads until the content ends with `end`; returns it."""
    content = b""
    while not content.endswith(end):
        assert select.select([descriptor], [], [], seconds)[0], content
        content += os.read(descriptor, 1000)
    return content.decode()


def texts(output):
    """Returns the number and the text of each line of JSON; the last digits of scores depend on the batch."""
    records = map(json.loads, output.splitlines())
    return [(record["line"], record["translations"][0]["text"]) for record in records]


def start(*arguments, **streams):
    command = [sys.executable, "-m", "transduce", "translate", *map(str, arguments)]
    return subprocess.Popen(command, **({"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} | streams))


def test_a_pipe_is_translated_line_by_line(fluent, micro):
    lines = (micro / "test.en").read_bytes().splitlines(keepends=True)
    with start(fluent, "--json") as process:
        answers = ""
        for line in lines:
            process.stdin.write(line)
            process.stdin.flush()
            answers += read_until(process.stdout.fileno(), b"\n")
        process.stdin.close()
        assert process.wait(60) == 0
    of_file = forked("translate", fluent, micro / "test.en", "--json").out
    assert texts(answers) == texts(of_file)


def test_a_terminal_is_prompted(fluent):
    terminal, stream = pty.openpty()
    with start(fluent, stdin=stream, stderr=stream) as process:
        read_until(terminal, b"source> ")
        os.write(terminal, b"owl pig\n")
        assert read_until(process.stdout.fileno(), b"\n") == forked("translate", fluent, given=b"owl pig\n").out
        read_until(terminal, b"source> ")
        os.write(terminal, b"\x04")
        assert process.wait(60) == 0


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_finished_lines_are_kept_when_stopped(fluent, tmp_path, number):
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    with start(fluent, "--out", out, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"owl pig\n")
        process.stdin.flush()
        while not (partial.exists() and partial.stat().st_size):
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert process.stderr.read().decode() == f"transduce: finished lines are kept in {partial}\n"
    expected = forked("translate", fluent, given=b"owl pig\n").out
    assert (partial.read_text(), out.exists()) == (expected, False)
    ended = forked("translate", fluent, "--out", out, given=b"owl pig\n")
    assert (ended.code, partial.read_text()) == (2, expected)
    assert "add --overwrite" in ended.error
    assert forked("translate", fluent, "--out", out, "--overwrite", given=b"owl pig\n").code == 0
    assert (out.read_text(), partial.exists()) == (expected, False)


def test_lines_of_several_sentences_are_counted(fluent):
    ended = forked("translate", fluent, given=b"owl pig\n\nA pig runs. An owl sleeps.\nOwl? Pig!\n")
    assert (ended.code, ended.out.count("\n")) == (0, 4)
    assert ended.error.startswith(
        "2 lines seem to hold several sentences (the first: line 3); a line is translated as one sentence "
        "(`transduce translate-document` splits them)\n"
    )
