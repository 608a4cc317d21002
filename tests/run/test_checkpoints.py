"""Checkpoints: written atomically, read back bit-identical, and never loaded where they are damaged."""

import errno
import json
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

from transduce.run.checkpoints import Checkpoint, Checkpoints, DamagedError
from transduce.storage.checksums import checksums_of_files


def folders(path):
    """Returns the names of the folders in a folder: besides them it has the file that says that there was one."""
    return [each.name for each in path.iterdir() if each.is_dir()]


def checkpoint_of(step):
    draw = torch.Generator().manual_seed(step)
    weights = {"table": torch.randn(3, 5, generator=draw), "bias": torch.randn(2, generator=draw)}
    optimiser = {"exp_avg": torch.randn(17, generator=draw), "step": torch.tensor(float(step))}
    return Checkpoint(step, weights, optimiser, {"best": None, "position": [2, step], "elapsed": step / 7})


def are_equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_loaded_checkpoint_is_bit_identical(tmp_path):
    checkpoints = Checkpoints(tmp_path / "training", keep=2)
    checkpoints.save(checkpoint_of(3))
    loaded, saved = checkpoints.load(3), checkpoint_of(3)
    assert are_equal(loaded.weights, saved.weights)
    assert are_equal(loaded.optimiser, saved.optimiser)
    assert (loaded.step, loaded.state) == (3, saved.state)
    assert are_equal(checkpoints.weights(3), saved.weights)


def test_a_checkpoint_whose_replacement_was_interrupted_is_put_back(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(checkpoint_of(3))
    (tmp_path / "step-00000003").rename(tmp_path / "replaced-00000003")
    assert checkpoints.load_newest().step == 3
    checkpoints.save(checkpoint_of(3))
    assert folders(tmp_path) == ["step-00000003"]


def test_a_checkpoint_whose_replacement_was_interrupted_in_its_place_stays(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(checkpoint_of(3))
    shutil.copytree(tmp_path / "step-00000003", tmp_path / "replaced-00000003")
    assert checkpoints.load_newest().step == 3
    checkpoints.save(checkpoint_of(4))
    assert folders(tmp_path) == ["step-00000004"]


def test_only_the_newest_checkpoints_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (9, 10, 11, 99, 100):
        checkpoints.save(checkpoint_of(step))
    assert checkpoints.steps() == [11, 99, 100]


@pytest.mark.parametrize(
    ("written", "stay"),
    [
        ([4, 8, 9], [8, 9]),  # stopped at 9
        ([4, 8, 9, 12], [8, 12]),  # and gone on to 12
        ([4, 8, 9, 10, 11], [8, 11]),
        ([1, 2, 4], [4]),
        ([4, 8, 10], [8, 10]),  # 10 is the last step
    ],
)
def test_the_checkpoint_of_a_stop_is_deleted_with_the_next(tmp_path, written, stay):
    checkpoints = Checkpoints(tmp_path, keep=2, every=4)
    for step in written:
        checkpoints.save(checkpoint_of(step))
    assert checkpoints.steps() == stay


@pytest.mark.parametrize("call", [1, 2])
def test_a_failed_write_leaves_earlier_checkpoints_unchanged(tmp_path, monkeypatch, call):
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(checkpoint_of(1))
    checkpoints.save(checkpoint_of(2))
    save_file, calls = safetensors.torch.save_file, []

    def failing(tensors, path):
        calls.append(path)
        if len(calls) == call:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device", str(path))
        save_file(tensors, path)

    monkeypatch.setattr("safetensors.torch.save_file", failing)
    with pytest.raises(OSError, match="No space"):
        checkpoints.save(checkpoint_of(3))
    assert checkpoints.steps() == [1, 2]
    assert are_equal(checkpoints.weights(2), checkpoint_of(2).weights)
    assert not list(tmp_path.glob("writing-*"))  # which would keep a full disk full
    checkpoints.save(checkpoint_of(3))
    assert checkpoints.steps() == [2, 3]
    assert are_equal(checkpoints.weights(3), checkpoint_of(3).weights)


def test_a_write_interrupted_before_the_renaming_leaves_no_checkpoint(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(checkpoint_of(1))
    monkeypatch.setattr(type(tmp_path), "rename", lambda path, target: pytest.fail("cut short", pytrace=False))
    with pytest.raises(pytest.fail.Exception):
        checkpoints.save(checkpoint_of(2))
    assert checkpoints.steps() == [1]
    checkpoints.delete_old()
    assert folders(tmp_path) == ["step-00000001"]


def test_a_missing_folder_has_no_steps(tmp_path):
    assert Checkpoints(tmp_path / "nowhere", keep=2).steps() == []


def damage(path, kind):
    """Flips a bit of a file, truncates it or removes it."""
    content = path.read_bytes()
    if kind == "flipped":
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    elif kind == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.unlink()


@pytest.mark.parametrize("kind", ["flipped", "truncated", "missing"])
@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"])
def test_damage_is_reported_and_the_earlier_checkpoint_loaded(tmp_path, name, kind, log_lines):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        checkpoints.save(checkpoint_of(step))
    damage(tmp_path / "step-00000003" / name, kind)
    with pytest.raises(DamagedError, match=name):
        checkpoints.load(3)
    with pytest.raises(DamagedError, match=name):
        checkpoints.weights(3)
    newest = checkpoints.load_newest()
    assert newest.step == 2
    assert are_equal(newest.weights, checkpoint_of(2).weights)
    assert len(log_lines) == 1
    assert f"step-00000003 is damaged: {name}" in log_lines[0]
    # It stays under another name, so that it is not averaged.
    assert checkpoints.steps() == [1, 2]
    assert (tmp_path / "damaged-00000003").exists()
    checkpoints.save(checkpoint_of(3))
    damage(tmp_path / "step-00000003" / name, kind)
    assert checkpoints.load_newest().step == 2
    assert (tmp_path / "damaged-00000003-2").exists()


def test_damaged_checkpoints_are_set_aside(tmp_path, log_lines):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        checkpoints.save(checkpoint_of(step))
    checkpoints.set_damaged_aside()
    assert (checkpoints.steps(), log_lines) == ([1, 2, 3], [])
    (tmp_path / "step-00000002" / "model.safetensors").write_bytes(b"")
    checkpoints.set_damaged_aside()
    assert checkpoints.steps() == [1, 3]
    assert "step-00000002 is damaged: model.safetensors" in log_lines[0]
    for step in (1, 3):
        (tmp_path / f"step-{step:08d}" / "model.safetensors").write_bytes(b"")
    with pytest.raises(DamagedError, match="no checkpoint"):
        checkpoints.set_damaged_aside()


def test_nothing_moves_where_all_checkpoints_are_damaged(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    assert checkpoints.load_newest() is None
    for step in (1, 2):
        checkpoints.save(checkpoint_of(step))
        damage(tmp_path / f"step-0000000{step}" / "state.json", "truncated")
    with pytest.raises(DamagedError, match="--restart"):
        checkpoints.load_newest()
    assert checkpoints.steps() == [1, 2]


def test_an_older_checkpoint_stays_until_the_newer_is_read_back(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(checkpoint_of(1))
    rename = type(tmp_path).rename

    def corrupting(path, target):
        rename(path, target)
        damage(target / "model.safetensors", "flipped")

    monkeypatch.setattr(type(tmp_path), "rename", corrupting)
    with pytest.raises(OSError, match=r"not what is read back: model.safetensors"):
        checkpoints.save(checkpoint_of(2))
    assert checkpoints.steps() == [1]
    assert are_equal(checkpoints.load(1).weights, checkpoint_of(1).weights)


def test_checkpoints_of_stops_are_deleted_first_where_the_clock_decides(tmp_path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2, every=None)
    for step, is_due in ((3, True), (4, False), (7, True), (8, False), (11, True), (12, False)):
        checkpoints.save(Checkpoint(step, {"weight": torch.ones(2)}, {"step": torch.ones(1)}, {"is_due": is_due}))
    assert checkpoints.steps() == [11, 12]
    checkpoints.save(Checkpoint(15, {"weight": torch.ones(2)}, {"step": torch.ones(1)}, {"is_due": True}))
    assert checkpoints.steps() == [11, 15]


def refuse(monkeypatch, *names):
    """Makes `Path.rename` fail on folders of these names, and `shutil.rmtree` on folders whose names end like them."""
    rmtree, rename = shutil.rmtree, Path.rename

    def removed(path):
        if path.name.endswith(names):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        rmtree(path)

    def renamed(path, target):
        if path.name in names:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        return rename(path, target)

    monkeypatch.setattr(shutil, "rmtree", removed)
    monkeypatch.setattr(Path, "rename", renamed)


@pytest.mark.parametrize(("name", "left"), [("00000001", "deleting-00000001"), ("step-00000001", "step-00000001")])
def test_an_old_checkpoint_that_cannot_be_deleted_is_told_once_and_passed_over(
    tmp_path, monkeypatch, name, left, log_lines
):
    """An immutable file in it, or the folder itself; what NFS leaves of an open file is like the first."""
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(checkpoint_of(1))
    refuse(monkeypatch, name)
    for step in (2, 3, 4):
        checkpoints.save(checkpoint_of(step))
    assert checkpoints.kept_steps() == [4]
    assert set(folders(tmp_path)) == {left, "step-00000004"}
    (line,) = log_lines
    assert f"could not delete {tmp_path / left}" in line
    assert "Operation not permitted" in line
    assert Checkpoints(tmp_path, keep=1).load_newest().step == 4


def test_an_unfinished_checkpoint_that_cannot_be_deleted_is_passed_over(tmp_path, monkeypatch, log_lines):
    checkpoints = Checkpoints(tmp_path, keep=2)
    (tmp_path / "writing-3").mkdir()
    refuse(monkeypatch, "writing-3")
    checkpoints.save(checkpoint_of(3))
    assert checkpoints.load(3).step == 3
    assert len(log_lines) == 1


@pytest.mark.parametrize("moved", [False, True])
def test_a_checkpoint_stays_where_the_next_of_its_step_cannot_be_written(tmp_path, monkeypatch, moved):
    """As where a validation was pending in the first; the disk fails at the renaming, or right after it."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(checkpoint_of(3))
    rename = Path.rename

    def refused(path, target):
        if path.name.startswith("writing"):
            if moved:
                rename(path, target)
            raise OSError(errno.EIO, "Input/output error", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(OSError, match="Input/output"):
        checkpoints.save(checkpoint_of(3)._replace(state={}))
    assert checkpoints.load(3).state == checkpoint_of(3).state
    assert folders(tmp_path) == ["step-00000003"]


@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "manifest.json"])
def test_a_checkpoint_that_cannot_be_read_is_not_damaged(tmp_path, monkeypatch, name):
    """The disk may be back in a minute: the training neither renames the checkpoint nor goes back."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2):
        checkpoints.save(checkpoint_of(step))
    opened = Path.open

    def refused(path, *arguments, **options):
        if path == tmp_path / "step-00000002" / name:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refused)
    for read in (checkpoints.load_newest, checkpoints.set_damaged_aside):
        with pytest.raises(OSError, match=f"Input/output error: .*{name}"):
            read()
    monkeypatch.undo()
    assert checkpoints.steps() == [1, 2]
    assert checkpoints.load_newest().step == 2


def rewrite(path, content):
    """Writes another content of a file of a checkpoint, with its checksum in the manifest."""
    path.write_bytes(content)
    manifest = path.with_name("manifest.json")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | checksums_of_files([path])))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", b"\xff" * 64),
        ("optimiser.safetensors", b""),
        ("state.json", b"[" * 100_000),
        ("state.json", b"[]"),
        ("state.json", b'{"step": 1}'),
    ],
)
def test_content_that_is_wrong_under_a_right_checksum_is_damage(tmp_path, name, content, log_lines):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (1, 2):
        checkpoints.save(checkpoint_of(step))
    rewrite(tmp_path / "step-00000002" / name, content)
    with pytest.raises(DamagedError, match=f"step-00000002/{name}"):
        checkpoints.load(2)
    assert checkpoints.load_newest().step == 1
    assert f"step-00000002/{name}" in log_lines[0]


def test_a_manifest_that_lists_no_weights_is_damage(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(checkpoint_of(1))
    (tmp_path / "step-00000001" / "manifest.json").write_text("{}")
    with pytest.raises(DamagedError, match="manifest"):
        checkpoints.weights(1)
