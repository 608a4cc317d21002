"""After a power cut a run ends with the bits of an undisturbed one: whatever had not been synced is lost.

`kill −9` never loses what the system holds in memory, so the operations on files are recorded, and the disk is made
what it would be had the power failed after each of them: files have the content that they were last flushed with, and
the folders either all entries (journalled metadata) or those of their last flush.
"""

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from transduce.model_directory import Model
from transduce.recipe import load
from transduce.trainer.train import TrainOptions, run_training

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
    """What the disk would be after each operation below `root`, with entries of folders kept or lost."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.synced: dict[int, bytes] = {}  # by inode
        self.entries: dict[int, dict[str, tuple[int, bool]]] = {}  # name → inode, whether it is a folder
        self.opened: list[int] = []  # so that no inode is used again
        self.kept: list[Disk] = []
        self.lost: list[Disk] = []

    def note(self, descriptor: int | None) -> None:
        """After an operation; a flush gives its descriptor."""
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
        """Every name is there; of a file what it was flushed with, nothing if it never was."""
        found = []
        for path in sorted(self.root.rglob("*")):
            content = None if path.is_dir() else self.synced.get(path.stat().st_ino, b"")
            found.append((str(path.relative_to(self.root)), content))
        return Disk(tuple(found))

    def _lost(self) -> Disk:
        """A folder has the names of its last flush; one that was never flushed is empty."""
        found: list[tuple[str, bytes | None]] = []

        def walk(folder: int, prefix: str) -> None:
            for name, (number, is_folder) in sorted(self.entries.get(folder, {}).items()):
                if is_folder:
                    found.append((prefix + name, None))
                    walk(number, f"{prefix}{name}/")
                else:
                    found.append((prefix + name, self.synced.get(number, b"")))

        walk(self.root.stat().st_ino, "")
        return Disk(tuple(found))

    def close(self) -> None:
        for descriptor in self.opened:
            os.close(descriptor)


@pytest.fixture(scope="module")
def recipe(micro):
    return load(micro / "recipe.yaml")


@pytest.fixture(scope="module")
def recorded(recipe, tmp_path_factory):
    """The disks of a whole run, from its first operation to its last."""
    out = tmp_path_factory.mktemp("recorded")
    recorder = Recorder(out)
    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            call = getattr(os, name)

            def noted(*arguments, call=call, name=name, **options):
                given = call(*arguments, **options)
                recorder.note(arguments[0] if name == "fsync" else None)
                return given

            patch.setattr(os, name, noted)
        run_training(recipe, out, TrainOptions("cpu", 1), lambda line: None)
    recorder.close()
    return recorder


def assert_ends_as_undisturbed(recipe, trained, disk, out):
    disk.restore(out)
    run_training(recipe, out, TrainOptions("cpu", 1), lambda line: None)
    assert (out / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    Model.read(out)
    shutil.rmtree(out)


def thinned(states, many):
    """So many of them, evenly, the first and the last among them."""
    return [states[round(place * (len(states) - 1) / (many - 1))] for place in range(many)]


@pytest.mark.parametrize("metadata", ["kept", "lost"])
def test_some_power_cuts(recipe, trained, recorded, tmp_path, metadata):
    states = getattr(recorded, metadata)
    assert len(states) > 25
    for disk in thinned(states, 8):
        assert_ends_as_undisturbed(recipe, trained, disk, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("metadata", ["kept", "lost"])
def test_every_power_cut(recipe, trained, recorded, tmp_path, metadata):
    for disk in dict.fromkeys(getattr(recorded, metadata)):
        assert_ends_as_undisturbed(recipe, trained, disk, tmp_path / "run")


@pytest.mark.parametrize("metadata", ["kept", "lost"])
def test_a_model_that_was_there_is_there_after_every_power_cut(recorded, tmp_path, metadata):
    """From the first whole model on, a reader finds one on every disk: the old one or the new one."""
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
