"""Checkpoints: whole or not at all, the newest kept, given back to the bit."""

import pytest
import safetensors.torch
import torch

from transduce.trainer.checkpoints import Checkpoint, Checkpoints, DamagedError


def of(step):
    draw = torch.Generator().manual_seed(step)
    weights = {"table": torch.randn(3, 5, generator=draw), "bias": torch.randn(2, generator=draw)}
    optimiser = {"exp_avg": torch.randn(17, generator=draw), "step": torch.tensor(float(step))}
    return Checkpoint(step, weights, optimiser, {"best": None, "position": [2, step], "elapsed": step / 7})


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_what_is_saved_is_loaded_to_the_bit(tmp_path):
    checkpoints = Checkpoints(tmp_path / "training", keep=2)
    checkpoints.save(of(3))
    loaded, saved = checkpoints.load(3), of(3)
    assert same(loaded.weights, saved.weights)
    assert same(loaded.optimiser, saved.optimiser)
    assert (loaded.step, loaded.state) == (3, saved.state)
    assert same(checkpoints.weights(3), saved.weights)


def test_the_newest_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (9, 10, 11, 99, 100):
        checkpoints.save(of(step))
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
def test_one_between_the_runs_own_is_gone_with_the_next(tmp_path, written, stay):
    checkpoints = Checkpoints(tmp_path, keep=2, every=4)
    for step in written:
        checkpoints.save(of(step))
    assert checkpoints.steps() == stay


@pytest.mark.parametrize("call", [1, 2])
def test_a_write_that_fails_leaves_the_earlier_ones(tmp_path, monkeypatch, call):
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(of(1))
    checkpoints.save(of(2))
    save_file, calls = safetensors.torch.save_file, []

    def failing(tensors, path):
        calls.append(path)
        if len(calls) == call:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device", str(path))
        save_file(tensors, path)

    monkeypatch.setattr("safetensors.torch.save_file", failing)
    with pytest.raises(OSError, match="No space"):
        checkpoints.save(of(3))
    assert checkpoints.steps() == [1, 2]
    assert same(checkpoints.weights(2), of(2).weights)
    assert not list(tmp_path.glob("writing-*"))  # which would keep a full disk full
    checkpoints.save(of(3))
    assert checkpoints.steps() == [2, 3]
    assert same(checkpoints.weights(3), of(3).weights)


def test_a_write_cut_short_before_the_renaming_is_no_checkpoint(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, keep=2)
    checkpoints.save(of(1))
    monkeypatch.setattr(type(tmp_path), "rename", lambda path, target: pytest.fail("cut short", pytrace=False))
    with pytest.raises(pytest.fail.Exception):
        checkpoints.save(of(2))
    assert checkpoints.steps() == [1]
    checkpoints.tidy()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_where_nothing_was_saved_there_are_no_steps(tmp_path):
    assert Checkpoints(tmp_path / "nowhere", keep=2).steps() == []


def spoilt(path, how):
    """Damages a file in one of three ways."""
    content = path.read_bytes()
    if how == "flipped":
        path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["flipped", "truncated", "gone"])
@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json", "manifest.json"])
def test_damage_is_named_and_the_one_before_is_taken(tmp_path, name, how):
    checkpoints, said = Checkpoints(tmp_path, keep=3), []
    for step in (1, 2, 3):
        checkpoints.save(of(step))
    spoilt(tmp_path / "step-00000003" / name, how)
    with pytest.raises(DamagedError, match=name):
        checkpoints.load(3)
    with pytest.raises(DamagedError, match=name):
        checkpoints.weights(3)
    found = checkpoints.newest(said.append)
    assert found.step == 2
    assert same(found.weights, of(2).weights)
    assert len(said) == 1
    assert f"step-00000003 is damaged: {name}" in said[0]
    # It is kept, and no part of the run any more: it would be averaged.
    assert checkpoints.steps() == [1, 2]
    assert (tmp_path / "damaged-00000003").exists()
    checkpoints.save(of(3))
    spoilt(tmp_path / "step-00000003" / name, how)
    assert checkpoints.newest(said.append).step == 2
    assert (tmp_path / "damaged-00000003-2").exists()


def test_damaged_ones_are_left_out_wherever_they_stand(tmp_path):
    checkpoints, said = Checkpoints(tmp_path, keep=3), []
    for step in (1, 2, 3):
        checkpoints.save(of(step))
    checkpoints.drop_damaged(said.append)
    assert (checkpoints.steps(), said) == ([1, 2, 3], [])
    (tmp_path / "step-00000002" / "model.safetensors").write_bytes(b"")
    checkpoints.drop_damaged(said.append)
    assert checkpoints.steps() == [1, 3]
    assert "step-00000002 is damaged: model.safetensors" in said[0]
    for step in (1, 3):
        (tmp_path / f"step-{step:08d}" / "model.safetensors").write_bytes(b"")
    with pytest.raises(DamagedError, match="no checkpoint"):
        checkpoints.drop_damaged(said.append)


def test_where_nothing_is_whole_that_is_said_and_nothing_moved(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=3)
    assert checkpoints.newest(print) is None
    for step in (1, 2):
        checkpoints.save(of(step))
        spoilt(tmp_path / f"step-0000000{step}" / "state.json", "truncated")
    with pytest.raises(DamagedError, match="--restart"):
        checkpoints.newest(lambda line: None)
    assert checkpoints.steps() == [1, 2]


def test_an_older_one_stays_until_the_newer_is_read_back(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(of(1))
    rename = type(tmp_path).rename

    def lying(path, target):
        rename(path, target)
        spoilt(target / "model.safetensors", "flipped")

    monkeypatch.setattr(type(tmp_path), "rename", lying)
    with pytest.raises(OSError, match=r"not what is read back: model.safetensors"):
        checkpoints.save(of(2))
    assert checkpoints.steps() == [1]
    assert same(checkpoints.load(1).weights, of(1).weights)


def test_by_the_clock_the_checkpoints_of_stops_go_first(tmp_path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2, every=None)
    for step, is_due in ((3, True), (4, False), (7, True), (8, False), (11, True), (12, False)):
        checkpoints.save(Checkpoint(step, {"weight": torch.ones(2)}, {"step": torch.ones(1)}, {"is_due": is_due}))
    assert checkpoints.steps() == [11, 12]
    checkpoints.save(Checkpoint(15, {"weight": torch.ones(2)}, {"step": torch.ones(1)}, {"is_due": True}))
    assert checkpoints.steps() == [11, 15]
