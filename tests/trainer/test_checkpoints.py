"""Checkpoints: written atomically, read back bit-identical, and never loaded where they are damaged."""

import pytest
import safetensors.torch
import torch

from transduce.trainer.checkpoints import Checkpoint, Checkpoints, DamagedError


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
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


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
def test_damage_is_reported_and_the_earlier_checkpoint_loaded(tmp_path, name, kind):
    checkpoints, warnings = Checkpoints(tmp_path, keep=3), []
    for step in (1, 2, 3):
        checkpoints.save(checkpoint_of(step))
    damage(tmp_path / "step-00000003" / name, kind)
    with pytest.raises(DamagedError, match=name):
        checkpoints.load(3)
    with pytest.raises(DamagedError, match=name):
        checkpoints.weights(3)
    newest = checkpoints.load_newest(warnings.append)
    assert newest.step == 2
    assert are_equal(newest.weights, checkpoint_of(2).weights)
    assert len(warnings) == 1
    assert f"step-00000003 is damaged: {name}" in warnings[0]
    # It stays under another name, so that it is not averaged.
    assert checkpoints.steps() == [1, 2]
    assert (tmp_path / "damaged-00000003").exists()
    checkpoints.save(checkpoint_of(3))
    damage(tmp_path / "step-00000003" / name, kind)
    assert checkpoints.load_newest(warnings.append).step == 2
    assert (tmp_path / "damaged-00000003-2").exists()


def test_damaged_checkpoints_are_set_aside(tmp_path):
    checkpoints, warnings = Checkpoints(tmp_path, keep=3), []
    for step in (1, 2, 3):
        checkpoints.save(checkpoint_of(step))
    checkpoints.set_damaged_aside(warnings.append)
    assert (checkpoints.steps(), warnings) == ([1, 2, 3], [])
    (tmp_path / "step-00000002" / "model.safetensors").write_bytes(b"")
    checkpoints.set_damaged_aside(warnings.append)
    assert checkpoints.steps() == [1, 3]
    assert "step-00000002 is damaged: model.safetensors" in warnings[0]
    for step in (1, 3):
        (tmp_path / f"step-{step:08d}" / "model.safetensors").write_bytes(b"")
    with pytest.raises(DamagedError, match="no checkpoint"):
        checkpoints.set_damaged_aside(warnings.append)


def test_nothing_moves_where_all_checkpoints_are_damaged(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    assert checkpoints.load_newest(print) is None
    for step in (1, 2):
        checkpoints.save(checkpoint_of(step))
        damage(tmp_path / f"step-0000000{step}" / "state.json", "truncated")
    with pytest.raises(DamagedError, match="--restart"):
        checkpoints.load_newest(lambda line: None)
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
