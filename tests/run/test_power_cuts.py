"""A run that resumes after a power cut ends bit-identical to an uninterrupted one.

`kill −9` does not lose what the operating system has in memory. So the test records the operations on files and
rebuilds the disk as a power cut after each would leave it: files have their content at the last flush, folders have
either all entries (journalled metadata) or those of their last flush.
"""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from transduce.model_directory.model import Model
from transduce.recipe.recipe import load
from transduce.run.train import TrainOptions, run_training

OPERATIONS = ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir")


class Disk(NamedTuple):
    """Files by path, with their content; None is a folder."""

    files: tuple[tuple[str, bytes | None], ...]

    def restore(self, place: Path) -> None:
        place.mkdir(parents=True)
        for name, content in self.files:
            path = place / name
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


class Recorder:
    """The disk that a power cut after each operation below `root` leaves, with entries of folders kept or lost."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.synced: dict[int, bytes] = {}  # by inode
        self.entries: dict[int, dict[str, tuple[int, bool]]] = {}  # name → inode, whether it is a folder
        self.opened: list[int] = []  # so that no inode is used again
        self.kept: list[Disk] = []
        self.lost: list[Disk] = []

    def note(self, descriptor: int | None) -> None:
        """Records the disk after an operation; a flush gives its descriptor."""
        if descriptor is not None:
            path, number = Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor).st_ino
            if path.is_relative_to(self.root):
                self.opened.append(os.open(path, os.O_RDONLY))
                if path.is_dir():
                    self.entries[number] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}
                else:
                    self.synced[number] = path.read_bytes()
        for states, state in ((self.kept, self._kept()), (self.lost, self._lost())):
            if state not in states[-1:]:
                states.append(state)

    def _kept(self) -> Disk:
        """Returns all names, and each file with its content at the last flush, empty without one."""
        entries = []
        for path in sorted(self.root.rglob("*")):
            content = None if path.is_dir() else self.synced.get(path.stat().st_ino, b"")
            entries.append((str(path.relative_to(self.root)), content))
        return Disk(tuple(entries))

    def _lost(self) -> Disk:
        """Returns the names that each folder had at its last flush, none without one."""
        entries: list[tuple[str, bytes | None]] = []

        def walk(folder: int, prefix: str) -> None:
            for name, (number, is_folder) in sorted(self.entries.get(folder, {}).items()):
                if is_folder:
                    entries.append((prefix + name, None))
                    walk(number, f"{prefix}{name}/")
                else:
                    entries.append((prefix + name, self.synced.get(number, b"")))

        walk(self.root.stat().st_ino, "")
        return Disk(tuple(entries))

    def close(self) -> None:
        for descriptor in self.opened:
            os.close(descriptor)


@pytest.fixture(scope="module")
def recipe(micro):
    return load(micro / "recipe.yaml")


@pytest.fixture(scope="module")
def recorded(recipe, tmp_path_factory):
    """The disks after each operation of a run."""
    out = tmp_path_factory.mktemp("recorded")
    recorder = Recorder(out)
    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            call = getattr(os, name)

            def noted(*arguments, call=call, name=name, **options):
                result = call(*arguments, **options)
                recorder.note(arguments[0] if name == "fsync" else None)
                return result

            patch.setattr(os, name, noted)
        run_training(recipe, out, TrainOptions("cpu", 1))
    recorder.close()
    return recorder


def assert_ends_bit_identical(recipe, trained, disk, out):
    disk.restore(out)
    run_training(recipe, out, TrainOptions("cpu", 1))
    assert (out / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    Model.read(out)
    shutil.rmtree(out)


def evenly_spaced(states, count):
    """Returns `count` of the states, evenly spaced, with the first and the last."""
    return [states[round(place * (len(states) - 1) / (count - 1))] for place in range(count)]


@pytest.mark.parametrize("metadata", [pytest.param("kept", marks=pytest.mark.slow), "lost"])
def test_eight_power_cuts(recipe, trained, recorded, tmp_path, metadata):
    states = getattr(recorded, metadata)
    assert len(states) > 25
    for disk in evenly_spaced(states, 8):
        assert_ends_bit_identical(recipe, trained, disk, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("metadata", ["kept", "lost"])
def test_every_power_cut(recipe, trained, recorded, tmp_path, metadata):
    for disk in dict.fromkeys(getattr(recorded, metadata)):
        assert_ends_bit_identical(recipe, trained, disk, tmp_path / "run")


@pytest.mark.parametrize("metadata", ["kept", "lost"])
def test_a_written_model_survives_every_power_cut(recorded, tmp_path, metadata):
    """From the first model on, every disk has a readable model: the old one or the new one."""
    begun = False
    for disk in getattr(recorded, metadata):
        disk.restore(tmp_path / "run")
        try:
            Model.read(tmp_path / "run")
            begun = True
        except ValueError:
            assert not begun
        shutil.rmtree(tmp_path / "run")
    assert begun
