"""File systems that refuse fsync, chmod or locks; links and pipes planted in the place of files."""

import errno
import fcntl
import os
import shutil
import signal
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch

from transduce.commands import main
from transduce.commands.output_file import check_writable, open_output, release_outputs, write_output
from transduce.corpus.store.encoding import EncodingState
from transduce.corpus.store.preparation import verify_store
from transduce.model_directory.manifest import verify
from transduce.model_directory.model import Model, weights_of
from transduce.model_directory.writing import recipe_was_edited, write_model
from transduce.run.checkpoints import Checkpoint, Checkpoints
from transduce.storage import locks
from transduce.storage.atomic import atomic_write_text, flush_to_disk, write_tensors
from transduce.storage.locks import LockHeldError, exclusive_lock, output_lock, wait_for_lock
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file
from transduce.text.subwords import Subwords


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


@contextmanager
def limit_seconds(seconds):
    """Fails the test instead of waiting for ever; no handler of OSError catches it."""

    def stop(*_):
        pytest.fail(f"no end in {seconds} seconds")

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)


def refuse(monkeypatch, module, name, code):
    """Makes a call of the operating system fail."""

    def refused(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module, name, refused)


def save_a_checkpoint(folder):
    checkpoints = Checkpoints(folder)
    checkpoints.save(Checkpoint(12, {"a": torch.ones(3)}, {"step": torch.ones(1)}, {}))
    assert checkpoints.steps() == [12]
    assert checkpoints.find_damage(12) == []


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_flush_is_written_to(tmp_path, monkeypatch, code):
    refuse(monkeypatch, os, "fsync", code)
    atomic_write_text(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"
    save_a_checkpoint(tmp_path / "training")


def test_a_disk_that_fails_to_flush_is_an_error(tmp_path, monkeypatch):
    atomic_write_text(tmp_path / "a", "old")
    refuse(monkeypatch, os, "fsync", errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        atomic_write_text(tmp_path / "a", "new")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        flush_to_disk(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_a_file_system_without_permissions_is_written_to(tmp_path, monkeypatch):
    (tmp_path / "out").write_text("old")
    (tmp_path / "page").write_text("old")
    refuse(monkeypatch, os, "chmod", errno.EPERM)
    write_tensors({"a": torch.ones(3)}, tmp_path / "tensors")
    with open_output(tmp_path / "out") as write:
        write("new")
    write_output("new", tmp_path / "page")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "page", "tensors"]
    assert (tmp_path / "out").read_text() == (tmp_path / "page").read_text() == "new"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch, code):
    refuse(monkeypatch, fcntl, "flock", code)
    for lock in (exclusive_lock(tmp_path, "training"), wait_for_lock(tmp_path)):
        before = len(list(Path("/dev/fd").iterdir()))
        with pytest.raises(ValueError, match=f"^{tmp_path}: this file system has no locks .* choose a folder on"), lock:
            pass
        assert len(list(Path("/dev/fd").iterdir())) == before


def write_to_output(out):
    with open_output(out) as write:
        write("new")


def enter(lock):
    with lock:
        pass


# Everything that locks a file or a folder: what it does with a path.
LOCKERS = {
    "text": lambda path: atomic_write_text(path, "new"),
    "tensors": lambda path: write_tensors({"a": torch.ones(3)}, path),
    "result": lambda path: write_output("new", path),
    "output": write_to_output,
    "output lock": lambda path: enter(output_lock(path)),
    "folder": lambda path: enter(exclusive_lock(path.parent, "training")),
    "folder, waiting": lambda path: enter(wait_for_lock(path.parent)),
}


@pytest.fixture
def sticky(tmp_path, monkeypatch):
    """A folder with the sticky bit, as /tmp has, and a function that puts the file of another user into it."""
    foreign, opened, (unlink, replace, open_file) = set(), set(), (os.unlink, os.replace, os.open)

    def plant(name, content="left", *, readable=True):
        foreign.add(str(tmp_path / name))
        opened.update([str(tmp_path / name)] * readable)
        (tmp_path / name).write_text(content)

    def check(path, code=errno.EPERM):
        if str(path) in foreign:
            raise PermissionError(code, os.strerror(code), str(path))

    def checked_open(path, flags, *options, **named):
        if not flags & os.O_EXCL and (flags & os.O_ACCMODE != os.O_RDONLY or str(path) not in opened):
            check(path, errno.EACCES)
        return open_file(path, flags, *options, **named)

    tmp_path.chmod(0o1777)
    monkeypatch.setattr(os, "unlink", lambda path, **named: (check(path), unlink(path, **named))[1])
    monkeypatch.setattr(os, "replace", lambda source, target: (check(target), replace(source, target))[1])
    monkeypatch.setattr(os, "open", checked_open)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    return tmp_path, plant


@pytest.mark.parametrize("readable", [True, False])
def test_what_another_user_has_left_in_a_sticky_folder_is_passed_over(sticky, readable):
    folder, plant = sticky
    for name in (".a.writing", ".a.2.writing", ".page.writing", ".tensors.writing"):
        plant(name, readable=readable)
    atomic_write_text(folder / "a", "new")
    write_output("new", folder / "page")
    write_tensors({"a": torch.ones(3)}, folder / "tensors")
    assert (folder / "a").read_text() == (folder / "page").read_text() == "new"
    left = [".a.2.writing", ".a.writing", ".page.writing", ".tensors.writing"]
    assert sorted(path.name for path in folder.iterdir()) == [*left, "a", "page", "tensors"]
    assert {(folder / name).read_text() for name in left} == {"left"}


def test_the_lock_that_another_user_has_left_in_a_sticky_folder_is_locked(sticky):
    folder, plant = sticky
    plant(".a.writing.lock")
    for _ in range(2):
        with output_lock(folder / "a"):
            with pytest.raises(LockHeldError, match="it is already being written"):
                enter(output_lock(folder / "a"))
            write_to_output(folder / "a")
    assert sorted(path.name for path in folder.iterdir()) == [".a.writing.lock", "a"]


@pytest.mark.parametrize("name", ["a", "a.partial", ".a.writing.lock"])
def test_what_cannot_be_replaced_in_a_sticky_folder_is_named_before_the_work(sticky, name):
    folder, plant = sticky
    plant(name, readable=False)
    message = f"{folder / name}: the file belongs to .*, and you may not remove it; .* or name another file"
    with release_outputs(), pytest.raises((ValueError, PermissionError), match=message):
        check_writable(folder / "a", overwrite=True)
    assert (folder / name).read_text() == "left"
    if name == "a.partial":
        with pytest.raises(PermissionError, match=f"^{folder / name}: the file belongs to"):
            write_to_output(folder / "a")


@pytest.mark.parametrize("locker", LOCKERS)
def test_a_file_system_with_changing_inode_numbers_is_refused(locker, tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    descriptors = len(list(Path("/dev/fd").iterdir()))
    refused = pytest.raises(OSError, match=f"^{tmp_path}.*: this file system has changing inode numbers, .* choose a")
    with limit_seconds(5), refused:
        LOCKERS[locker](tmp_path / "a")
    assert len(list(Path("/dev/fd").iterdir())) == descriptors
    assert not (tmp_path / "a").exists()


def test_a_folder_that_vanishes_again_and_again_is_an_error(tmp_path, monkeypatch):
    refuse(monkeypatch, locks, "lock", errno.ENOENT)
    with limit_seconds(5), pytest.raises(FileNotFoundError):
        enter(exclusive_lock(tmp_path, "training"))


def test_a_file_system_where_all_is_locked_ends_the_search_for_a_name(tmp_path, monkeypatch):
    refuse(monkeypatch, fcntl, "flock", errno.EAGAIN)
    with (
        limit_seconds(5),
        pytest.raises(OSError, match=f"^{tmp_path}/a: 99 temporary files beside it, from .a.writing"),
    ):
        atomic_write_text(tmp_path / "a", "new")


def test_training_without_locks_ends_with_a_message(micro, tmp_path, monkeypatch, capsys):
    refuse(monkeypatch, fcntl, "flock", errno.ENOLCK)
    with pytest.raises(SystemExit) as ended:
        main(["train", str(micro / "recipe.yaml"), "--out", str(tmp_path / "run"), "--device", "cpu"])
    assert ended.value.code == 2
    assert f"transduce: {tmp_path / 'run'}: this file system has no locks" in capsys.readouterr().err


@pytest.fixture
def treasure(tmp_path):
    """A file that links lead to; it must stay as it is."""
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "treasure"
    path.write_text("gold")
    yield path
    assert path.read_text() == "gold"
    assert [path.name for path in path.parent.iterdir()] == ["treasure"]


@pytest.mark.parametrize("target", ["treasure", "missing"])
@pytest.mark.parametrize("plant", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_no_planted_link_is_followed(tmp_path, treasure, plant, target):
    if plant is os.link and target == "missing":
        pytest.skip("hard links have targets")
    target = treasure.with_name(target)
    for name in (".a.writing", "out.partial", ".page.writing", "tensors"):
        plant(target, tmp_path / name)
    atomic_write_text(tmp_path / "a", "new")
    with open_output(tmp_path / "out") as write:
        write("new")
    write_output("new", tmp_path / "page")
    write_tensors({"a": torch.ones(3)}, tmp_path / "tensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "elsewhere", "out", "page", "tensors"]
    assert not any(path.is_symlink() for path in tmp_path.iterdir())
    assert (tmp_path / "a").read_text() == (tmp_path / "out").read_text() == (tmp_path / "page").read_text() == "new"


def test_planted_links_do_not_stop_checkpoints(tmp_path, treasure):
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "writing-12").symlink_to(treasure.parent)
    (folder / "writing-13").symlink_to("nowhere")
    (folder / "writing-14").write_text("a file")
    os.mkfifo(folder / "writing-15")
    os.mkfifo(folder / "deleting-16")
    save_a_checkpoint(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-saved", "step-00000012"]


@pytest.mark.parametrize("suffix", ["next", "next.writing"])
def test_planted_links_in_a_model_directory_are_not_followed(run, treasure, suffix):
    model = Model.read(run)
    names = ["config.json", "model.safetensors", "tokenizer.json", "README.md"]
    for name in (*names, "manifest"):
        prefix = "." if suffix == "next" else ".."
        (run / f"{prefix}{name}.{suffix}").symlink_to(treasure)
    write_model(run, model.config, weights_of(model.module), (model.source, model.target), {"README.md": "card"})
    assert verify(run) == []
    assert not any(path.is_symlink() for path in run.iterdir())


def plant_pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def test_pipes_in_a_checkpoint_are_damage(run):
    checkpoints = Checkpoints(run / "training", keep=2, every=None)
    for name in ("model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"):
        plant_pipe(run / "training" / "step-00000012" / name)
        with limit_seconds(5):
            assert name in "".join(checkpoints.find_damage(12))
    with limit_seconds(5):
        checkpoints.delete_old()


@pytest.mark.parametrize("name", ["training/step-00000012/manifest.json", "training/store/store.json", "config.json"])
def test_verify_ends_where_a_file_is_a_pipe(run, name, capsys):
    plant_pipe(run / name)
    with limit_seconds(10), pytest.raises(SystemExit) as ended:
        main(["info", str(run), "--verify"])
    assert ended.value.code == 2
    assert f"{run} is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors", "config.json", "recipe.yaml", "README.md"])
def test_pipes_in_a_model_directory_end_reading_and_writing(run, name):
    model = Model.read(run)
    plant_pipe(run / name)
    with limit_seconds(5):
        if name != "README.md":
            with pytest.raises(ValueError, match=name):
                Model.read(run)
        if name in ("recipe.yaml", "manifest.json"):
            with pytest.raises(ValueError, match=f"{run / name} is not a regular file"):
                recipe_was_edited(run)
        write = partial(write_model, run, model.config, {}, (model.source, model.target), {"README.md": "card"})
        if name == "manifest.json":
            with pytest.raises(ValueError, match=f"{run / name} is not a regular file"):
                write()
        if name == "README.md":  # not the card that the program has written, so that it stays
            write()
            assert (run / name).is_fifo()


def test_pipes_in_a_store_are_refused(run):
    store = run / "training" / "store"
    plant_pipe(store / "tokenizer.json")
    plant_pipe(store / "state.json")
    with limit_seconds(5):
        with pytest.raises(ValueError, match="not a regular file"):
            Subwords.load(store / "tokenizer.json")
        assert EncodingState.load(store) == EncodingState.load(store / "nowhere")


def test_huge_descriptions_are_refused_unread(run, tmp_path):
    checkpoint, store = run / "training" / "step-00000012", run / "training" / "store"
    for path in (run / "manifest.json", checkpoint / "manifest.json", store / "store.json"):
        os.truncate(path, 10 * 2**30)
    with pytest.raises(ValueError, match=f"{run / 'manifest.json'} is damaged: it has 10,737,418,240 bytes"):
        verify(run)
    assert "not a manifest" in "".join(Checkpoints(run / "training").find_damage(12))
    assert f"{store / 'store.json'} is damaged: it has 10,737,418,240 bytes" in "".join(verify_store(store))
    (tmp_path / "small").write_bytes(b"x" * 10)
    assert read_regular_file(tmp_path / "small", MAX_JSON_BYTES) == b"x" * 10
