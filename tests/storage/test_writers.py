"""All that writes files: two writers at once, a temporary file that is taken away, and what a killed process leaves."""

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from micro_run import forked
from transduce.bulk.finished_shards import FinishedShards
from transduce.bulk.shards import ShardResult
from transduce.commands import output_file
from transduce.commands.output_file import check_writable, open_output, release_outputs, write_output
from transduce.exchange import browser_format
from transduce.measure.calibration import reliability_curve
from transduce.model_directory.manifest import CARD, verify
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import write_config, write_model, write_new_model
from transduce.pages import draw_calibration, draw_tree
from transduce.parsing.trees import parse_tree
from transduce.run.checkpoints import Checkpoint, Checkpoints
from transduce.run.trackers import CsvTracker
from transduce.storage import locks
from transduce.storage.atomic import atomic_write, atomic_write_text, write_tensors
from transduce.storage.locks import LockHeldError, exclusive_lock, output_lock

REFUSED = "it is already being written; wait for the other command to end, or name another file"


def write_lines(text, out):
    with open_output(out) as write:
        write(text)


def draw_curve(text, out):
    curve = reliability_curve([0.1 * len(text), 0.5], [0.2, 0.6])
    draw_calibration(curve, curve, out)


def add_column(text, out):
    tracker = CsvTracker(out)
    tracker.begin(None)
    tracker.add(1, {text: 1.0})


def save_shards(text, out):
    for folder in ("shards", "made"):
        (out.parent / folder).mkdir(exist_ok=True)
    shard = SimpleNamespace()
    finished = FinishedShards(out.parent, {})
    finished.path = lambda _: out
    finished.save(shard, ShardResult(text, []))


def add_runtime(text, out):
    package = out.parent.parent / f"package {text}"
    package.mkdir(exist_ok=True)
    (package / "runtime").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(browser_format, "CHECKSUMS", {"runtime": browser_format._checksum(package / "runtime")})
        patch.setattr(browser_format, "_cache", lambda: out.parent)
        browser_format.add_runtime(package)


def save_subwords(text, out):
    from transduce.text.subword_training import Bpe
    from transduce.text.subwords import Subwords

    Subwords.learn([text * 3, "some more text"], Bpe(size=270)).save(out)


WRITERS = {
    "text": (lambda text, out: atomic_write_text(out, text), "a"),
    "bytes": (lambda text, out: atomic_write(out, lambda path: path.write_bytes(text.encode())), "a"),
    "result": (write_output, "a"),
    "lines": (write_lines, "a"),
    "tensors": (lambda text, out: write_tensors({text: torch.ones(3)}, out), "a.safetensors"),
    "subwords": (save_subwords, "tokenizer.json"),
    "page": (draw_curve, "a.html"),
    "figure": (draw_curve, "a.svg"),
    "tree": (lambda text, out: draw_tree(parse_tree(f"(S (NP {text}))"), out), "a.svg"),
    "csv": (add_column, "metrics.csv"),
    "shard": (save_shards, "a"),
    "runtime": (add_runtime, "runtime"),
}


@pytest.fixture(params=WRITERS)
def writer(request, tmp_path):
    """A function that writes one of two texts to a path, and the path; the folder has nothing else."""
    write, name = WRITERS[request.param]
    (tmp_path / "folder").mkdir()
    return write, tmp_path / "folder" / name


@contextlib.contextmanager
def at_first_flush(action):
    """Calls `action` where a writer flushes its first file, which then has its content and not yet its name."""
    flush, actions = os.fsync, [action]

    def flushed(descriptor):
        if actions:
            actions.pop()()
        flush(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", flushed)
        yield
    assert not actions


def content_of(write, text, out):
    """What a writer writes if it is alone."""
    write(text, out)
    content = out.read_bytes()
    out.unlink()
    return content


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_two_writers_at_once(writer):
    write, out = writer
    first, second = (content_of(write, text, out) for text in ("first", "second"))
    refused = []

    def write_second():
        try:
            write("second", out)
            assert out.read_bytes() == second
        except LockHeldError as error:
            refused.append(str(error))

    with at_first_flush(write_second):
        write("first", out)
    assert out.read_bytes() == first
    assert files(out.parent) == [out.name]
    assert refused in ([], [f"{out}: {REFUSED}"])


@pytest.mark.parametrize("foreign", [None, b"foreign"], ids=["removed", "replaced"])
def test_a_temporary_file_that_is_taken_away(writer, foreign):
    write, out = writer
    out.write_bytes(content_of(write, "first", out))
    before, taken = out.read_bytes(), []

    def take():
        for path in out.parent.rglob("*"):
            if path.is_file() and path != out:
                path.unlink()
                taken.append(path)
                if foreign is not None:
                    path.write_bytes(foreign)

    with (
        pytest.raises(OSError, match="was removed or replaced by another program before it was finished"),
        at_first_flush(take),
    ):
        write("second", out)
    assert out.read_bytes() == before
    assert all(path.read_bytes() == foreign for path in taken if path.exists())


def test_what_a_killed_process_leaves(writer, capsys):
    write, out = writer
    expected, left = content_of(write, "second", out), {}

    def remember():
        left.update({path: path.read_bytes() for path in out.parent.rglob("*") if path.is_file()})

    with at_first_flush(remember):
        write("first", out)
    out.unlink()
    assert left
    for path, content in left.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    write("second", out)
    assert out.read_bytes() == expected
    assert files(out.parent) == [out.name]


def test_a_model_directory_is_one_writers(trained, tmp_path):
    """Two writers, of which each writes all files: a lock of the directory is held by every command that calls them."""
    model = Model.read(trained)

    def write(card):
        write_model(tmp_path, model.config, weights_of(model.module), (model.source, model.target), {CARD: card})

    write("first")

    def take():
        for path in tmp_path.iterdir():
            if path.name.startswith(".."):
                path.unlink()
                path.write_text("foreign")

    for change in (lambda: write("second"), lambda: write_config(tmp_path, model.config)):
        with pytest.raises(OSError, match="was removed or replaced by another program"), at_first_flush(take):
            change()
        assert verify(tmp_path) == []
        assert (tmp_path / CARD).read_text() == "first"
    write("second")  # what the two have left is gone
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_checkpoints_leave_nothing_and_publish_no_foreign_file(tmp_path):
    checkpoints, checkpoint = Checkpoints(tmp_path), Checkpoint(3, {"a": torch.ones(3)}, {"a": torch.ones(1)}, {})

    def take():
        for path in tmp_path.rglob("*.writing"):
            path.unlink()

    with pytest.raises(OSError, match="was removed or replaced"), at_first_flush(take):
        checkpoints.save(checkpoint)
    assert (checkpoints.steps(), list(tmp_path.iterdir())) == ([], [])
    checkpoints.save(checkpoint)
    assert len(files(tmp_path / "step-00000003")) == 4


# Every option that names an output file: the arguments of the command, and the file that it writes into `folder`.
DOORS = {
    "translate": (["translate", "{fluent}", "{text}", "--out", "{out}"], "a"),
    "translate_document": (
        ["translate-document", "{fluent}", "{text}", "--format", "markdown", "--out", "{out}"],
        "a",
    ),
    "translate_corpus": (["translate-corpus", "{fluent}", "{text}", "--out", "{out}"], "a"),
    "translate_corpus --pairs": (
        ["translate-corpus", "{fluent}", "{text}", "--pairs", "forward", "--out", "{out}"],
        "a",
    ),
    "parse": (["parse", "{fluent}", "{text}", "--out", "{out}"], "a"),
    "evaluate": (["evaluate", "{fluent}", "--test", "spare", "--out", "{out}"], "a"),
    "draw": (["draw", "{fluent}", "owl", "--out", "{out}"], "a.html"),
    "report": (["report", "{fluent}", "--out", "{out}"], "a.html"),
    "report as Markdown": (["report", "{fluent}", "--out", "{folder}/b.html", "--out", "{out}"], "a.md"),
    "measure": (["measure", "{text}", "{text}", "--reference", "{text}", "--html", "{out}"], "a.html"),
    "inspect": (["inspect", "{text}", "{micro}/test.de", "--html", "{out}"], "a.html"),
    "calibrate": (["calibrate", "{fluent}", "--out", "{out}"], "a.html"),
    "suggest": (["suggest", "{micro}/recipe.yaml", "--minutes", "1", "--out", "{out}"], "a.yaml"),
    "split": (["split", "{text}", "{micro}/test.de", "--test", "1", "--out", "{folder}"], "test.de"),
}


@pytest.mark.parametrize("door", DOORS)
def test_the_second_command_is_refused(door, fluent, micro, tmp_path, command):
    arguments, name = DOORS[door]
    folder, out = tmp_path / "folder", tmp_path / "folder" / name
    out.parent.mkdir(parents=True)
    values = {"fluent": fluent, "micro": micro, "text": micro / "test.en", "folder": folder, "out": out}
    with output_lock(out):
        code, printed, error = command(*(argument.format(**values) for argument in arguments))
    assert (code, printed) == (2, "")
    assert f"{out}: {REFUSED}\n" in error
    assert (files(out.parent), list(tmp_path.iterdir())) == ([], [folder])


# The doors of `check_writable`; the others resume what a stopped command has left.
CHECKED_DOORS = [door for door in DOORS if not door.startswith("translate_corpus")]


@pytest.mark.parametrize("door", CHECKED_DOORS)
def test_the_lines_of_a_stopped_command_are_not_removed(door, fluent, micro, tmp_path, command):
    arguments, name = DOORS[door]
    folder, out = tmp_path / "folder", tmp_path / "folder" / name
    out.parent.mkdir(parents=True)
    partial = out.with_name(f"{name}.partial")
    partial.write_text("finished")
    values = {"fluent": fluent, "micro": micro, "text": micro / "test.en", "folder": folder, "out": out}
    code, printed, error = command(*(argument.format(**values) for argument in arguments))
    assert (code, printed) == (2, "")
    assert f"{partial}: holds the lines of a stopped command; move it, or add --overwrite to replace it\n" in error
    assert (files(out.parent), partial.read_text()) == ([partial.name], "finished")


def test_a_command_that_names_a_file_twice_is_told_so(tmp_path, command):
    """`report` writes as many files as there are options `--out`."""
    page, link = tmp_path / "a.html", tmp_path / "link"
    link.symlink_to(page)
    for existing in (False, True):
        for out, markdown in ((page, page), (page, link), (link, page), (page, tmp_path / "." / "a.html")):
            arguments = ["report", tmp_path / "run", "--out", out, "--out", markdown, "--overwrite"]
            code, printed, error = command(*arguments)
            assert (code, printed) == (2, "")
            assert error == (f"transduce: --out and --out name the same file, {markdown}; name another file\n")
        assert files(tmp_path) == [page.name, link.name] * existing
        page.write_text("before")
    assert page.read_text() == "before"
    os.mkfifo(tmp_path / "pipe")
    with release_outputs():
        for path in (Path("/dev/null"), tmp_path / "pipe"):
            check_writable(path)
            check_writable(path, option="--html")


def test_every_output_option_is_a_door():
    """The doors above are those of the source: every command that locks an output file is tried."""
    import transduce.commands

    folder = Path(transduce.commands.__file__).parent
    callers = {path.stem for path in folder.glob("*.py") if "check_writable(" in path.read_text("utf-8")}
    assert callers - {"output_file"} == {door.split()[0] for door in CHECKED_DOORS}
    writers = {path.stem for path in folder.glob("*.py") if "open_output(" in path.read_text("utf-8")}
    assert writers - {"output_file"} == {"line_windows", "parse", "score", "split", "suggest"}


@pytest.mark.parametrize("verb", ["average", "train --prepare", "train", "export"])
def test_the_second_command_of_a_directory_is_refused(verb, trained, micro, tmp_path, command):
    out = tmp_path / "out"
    commands = {
        "average": ["average", trained, "--last", 2, "--out", out],
        "train --prepare": ["train", micro / "recipe.yaml", "--out", out, "--prepare"],
        "train": ["train", micro / "recipe.yaml", "--out", out],
        "export": ["export", trained, "--to", "ctranslate2", "--out", out],
    }
    with exclusive_lock(out if verb != "export" else tmp_path / ".out.exporting", "another"):
        code, printed, error = command(*commands[verb])
    assert (code, printed) == (2, ""), error
    assert "is at work in" in error


def test_a_new_model_is_written_by_one_process_into_an_empty_directory(trained, tmp_path):
    """So `average` and `import` write it."""
    model, out = Model.read(trained), tmp_path / "out"

    def write():
        write_new_model(out, model.config, weights_of(model.module), (model.source, model.target), {CARD: "card"})

    with exclusive_lock(out, "import"), pytest.raises(LockHeldError, match=f"is at work in {out}"):
        write()
    write()
    assert verify(out) == []
    with pytest.raises(ValueError, match=f"{out} is not empty"):
        write()


def test_a_file_that_another_command_has_just_written_is_not_replaced(tmp_path, monkeypatch):
    @contextlib.contextmanager
    def lock_after_the_other_has_ended(out):
        out.write_text("of the other")
        yield

    monkeypatch.setattr(output_file, "output_lock", lock_after_the_other_has_ended)
    with release_outputs(), pytest.raises(ValueError, match=f"--out {tmp_path / 'out'}: the file exists already"):
        check_writable(tmp_path / "out")


def test_what_has_no_lock_and_what_shares_one(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with output_lock(path), output_lock(path):
            pass
    (tmp_path / "link").symlink_to(tmp_path / "target")
    refused = pytest.raises(LockHeldError, match="link: it is already being written")
    with output_lock(tmp_path / "target"), refused, output_lock(tmp_path / "link"):
        pass
    (tmp_path / "target").write_text("in a folder that is not writable")
    monkeypatch.setattr(locks, "is_replaceable", lambda path: False)
    with output_lock(tmp_path / "target"), pytest.raises(LockHeldError), output_lock(tmp_path / "link"):
        pass
    assert files(tmp_path) == ["link", "target"]
    assert (tmp_path / "target").read_text() == "in a folder that is not writable"


def test_without_locks_the_newer_writer_wins_and_the_older_one_fails(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    out = tmp_path / "out"
    (tmp_path / ".out.writing.lock").write_text("of a killed process")
    refused = pytest.raises(OSError, match=r"out\.partial was removed or replaced")
    with output_lock(out), refused, open_output(out) as write:
        write("older")
        write_lines("newer", out)
    assert out.read_text() == "newer"
    assert files(tmp_path) == ["out"]


def test_an_output_keeps_its_permissions(tmp_path):
    (tmp_path / "out").write_text("before")
    for mode in (0o600, 0o664):
        (tmp_path / "out").chmod(mode)
        write_lines("after", tmp_path / "out")
        assert (tmp_path / "out").stat().st_mode & 0o777 == mode


def test_a_folder_that_its_last_owner_has_renamed_is_made_again(tmp_path, monkeypatch):
    flock, folder = fcntl.flock, tmp_path / "staging"
    renamed = []

    def rename_first(descriptor, operation):
        if not renamed:
            renamed.append(folder.rename(tmp_path / "published"))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", rename_first)
    with exclusive_lock(folder, "export"):
        assert folder.is_dir()
        with pytest.raises(LockHeldError), exclusive_lock(folder, "export"):
            pass


def test_two_commands_with_one_output(fluent, micro, tmp_path):
    """The first reads a pipe and waits; the second begins and ends meanwhile. The file is what the first one wrote."""
    out = tmp_path / "out"
    program = [sys.executable, "-m", "transduce", "translate", str(fluent), "--out", str(out)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        first.stdin.write(b"owl pig\n")
        first.stdin.flush()
        while not any(path.stat().st_size for path in tmp_path.iterdir()):
            assert first.poll() is None
        for more in ([], ["--overwrite"]):
            ended = forked("translate", fluent, micro / "test.en", "--out", out, *more)
            assert (ended.code, ended.out) == (2, "")
            assert ended.error.startswith(f"transduce: --out {out}: {REFUSED}")
        first.stdin.close()
        assert (first.wait(60), first.stderr.read()) == (0, b"")
    assert (out.read_text().count("\n"), list(tmp_path.iterdir())) == (1, [out])


def test_a_killed_command_blocks_nobody(fluent, tmp_path):
    out = tmp_path / "out"
    program = [sys.executable, "-m", "transduce", "translate", str(fluent), "--out", str(out)]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        while len(list(tmp_path.iterdir())) < 2:
            assert process.poll() is None
        process.kill()
    assert len(list(tmp_path.iterdir())) == 2
    assert forked("translate", fluent, "--out", out, given=b"owl\n").code == 0
    assert list(tmp_path.iterdir()) == [out]
