"""Output files and threads are checked before the work; a file of results is the old one or the new one, whole."""

import contextlib
import itertools
import os
import resource
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
import torch

from micro_run import forked
from transduce.commands import main
from transduce.commands.output_file import write_output
from transduce.embedded import FILES, SPLITS
from transduce.pages import draw_attention
from transduce.recipe.recipe import load
from transduce.run import train as train_module
from transduce.runtime.device import set_threads, training_numerics
from transduce.translation.results import Explanation


@contextlib.contextmanager
def file_size_limit(size):
    """No file may become larger, as under `ulimit -f`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("threads", [0, -1, 10_000, 100_000, 2**31, 2**70])
def test_absurd_threads_are_refused(threads):
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match=f"threads {threads}: choose 1 to "):
        set_threads(threads)
    with (
        pytest.raises(ValueError, match=f"threads {threads}: choose 1 to "),
        training_numerics(torch.device("cpu"), threads),
    ):
        pass
    assert torch.get_num_threads() == before
    assert float(torch.tensor(1e-40) * 1.0) > 0  # no setting of the refused training stays


def test_threads_of_a_larger_machine_are_accepted():
    before = torch.get_num_threads()
    try:
        set_threads(256)
        assert torch.get_num_threads() == 256
    finally:
        set_threads(before)


def test_absurd_threads_are_refused_by_every_command(fluent, micro, tmp_path):
    for verb in (
        ["train", micro / "recipe.yaml", "--out", tmp_path / "run"],
        ["translate", fluent, micro / "test.en"],
        ["translate-corpus", fluent, micro / "test.en", "--out", tmp_path / "out"],
        ["evaluate", fluent, "--test", "spare"],
        ["bench", "train", "--steps", 1],
    ):
        ended = forked(*verb, "--threads", 100_000)
        assert (ended.code, ended.out) == (2, ""), ended
        assert "threads 100000: choose 1 to " in ended.error


def test_preparing_starts_no_more_processes_than_cores(micro, tmp_path, monkeypatch):
    recipe = load(micro / "recipe.yaml")
    processes = []
    monkeypatch.setattr(train_module, "count_cores", lambda: 3)
    monkeypatch.setattr(train_module, "prepare_corpus", lambda *_, threads, **__: processes.append(threads))
    for threads in (None, 1, 200):
        train_module.prepare(recipe, tmp_path / "run", threads=threads)
    assert processes == [3, 1, 3]


@pytest.mark.parametrize("length", [247, *(pytest.param(length, marks=pytest.mark.slow) for length in (250, 255)), 256])
def test_a_name_that_is_too_long_is_refused_before_the_work(fluent, micro, tmp_path, length):
    (tmp_path / "text").write_text("ant bee\n")
    out = tmp_path / ("x" * (length - 5) + ".html")
    for verb in (
        ["translate", fluent, tmp_path / "text"],
        ["translate-corpus", fluent, tmp_path / "text"],
        ["evaluate", fluent, "--test", "spare"],
        ["draw", fluent, "ant bee"],
    ):
        ended = forked(*verb, "--out", out)
        assert (ended.code, ended.out) == (2, ""), ended
        assert "file name too long" in ended.error
        assert str(out) in ended.error
        assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["text"]


def test_a_name_just_short_enough_is_written(fluent, micro, tmp_path):
    out = tmp_path / ("x" * (255 - len("..partial.writing")))
    assert forked("translate", fluent, micro / "test.en", "--out", out).code == 0
    assert out.read_text().count("\n") == 5
    assert list(tmp_path.iterdir()) == [out]


def test_the_embedded_corpus_replaces_no_file(tmp_path, capsys):
    for part, name in itertools.product(SPLITS, FILES):
        path = tmp_path / "embedded" / part / name
        path.parent.mkdir(parents=True)
        path.write_text("mine\n")
        with pytest.raises(SystemExit) as leaving:
            main(["fetch", "embedded", f"--out={tmp_path}"])
        assert leaving.value.code == 2
        assert f"{path}: the file exists already" in capsys.readouterr().err
        assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["mine\n"]
        shutil.rmtree(tmp_path / "embedded")


@pytest.fixture
def explanation() -> Explanation:
    attention = (np.full((2, 3, 3), 1 / 3, dtype=np.float32),)
    return Explanation(("▁a", "▁b", "</s>"), ("▁c", "▁d", "</s>"), "a b", "c d", attention, attention, attention)


@pytest.mark.parametrize("kind", ["html", "png", "svg"])
def test_a_picture_under_a_limit_on_file_size_leaves_the_old_one(explanation, tmp_path, kind):
    path = tmp_path / f"attention.{kind}"
    draw_attention(explanation, tmp_path / f"warm.{kind}")  # Matplotlib may write its cache
    expected = (tmp_path / f"warm.{kind}").read_bytes()
    (tmp_path / f"warm.{kind}").unlink()
    path.write_text("old")
    path.chmod(0o600)
    with file_size_limit(2000), pytest.raises(OSError, match="too large"):
        draw_attention(explanation, path)
    assert (list(tmp_path.iterdir()), path.read_text()) == ([path], "old")
    draw_attention(explanation, path)
    assert path.read_bytes() == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_picture_goes_into_a_pipe_and_through_a_link(explanation, tmp_path):
    os.mkfifo(tmp_path / "pipe.html")
    reader = os.open(tmp_path / "pipe.html", os.O_RDONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        draw_attention(explanation, tmp_path / "pipe.html")
    assert os.read(reader, 15) == b"<!doctype html>"
    os.close(reader)
    (tmp_path / "link.html").symlink_to(tmp_path / "target.html")
    draw_attention(explanation, tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "target.html").read_text("utf-8").startswith("<!doctype html>")


def test_texts_under_a_limit_on_file_size_leave_the_old_ones(tmp_path):
    out = tmp_path / "out"
    out.write_text("old")
    with file_size_limit(2000), pytest.raises(OSError, match="too large"):
        write_output("new\n" * 1000, out)
    from transduce.embedded import write

    write("test", tmp_path / "corpus", count=1)
    before = (tmp_path / "corpus" / "source.en").read_text()
    with file_size_limit(2000), pytest.raises(OSError, match="too large"):
        write("test", tmp_path / "corpus", count=500)
    assert (out.read_text(), (tmp_path / "corpus" / "source.en").read_text()) == ("old", before)
    assert sorted(path.name for path in (tmp_path / "corpus").iterdir()) == sorted(FILES)


def test_a_limit_on_file_size_has_a_message(fluent, tmp_path):
    out = tmp_path / "picture.html"
    out.write_text("old")
    command = [sys.executable, "-m", "transduce", "draw", fluent, "ant bee", "--out", out, "--overwrite"]
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -f 2; exec "$@"', "sh", *map(str, command)], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, out.read_text()) == (2, "", "old")
    assert "file too large" in ended.stderr
    assert "Traceback" not in ended.stderr
