"""Windows and macOS, simulated at the seam: no `fcntl`, no folders that open, no rename over an open file."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from transduce.corpus import worker_pool
from transduce.storage import operating_system
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.locks import LockHeldError, exclusive_lock, wait_for_lock

fcntl = pytest.importorskip("fcntl")


def locking(descriptor: int, mode: int, size: int) -> None:
    """As `msvcrt.locking`, with a lock of Linux on the whole file."""
    assert (mode, size) == (2, 1)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No `fcntl`; folders cannot be opened, and files that are open for reading not be flushed."""
    open_file, flush_file = os.open, os.fsync

    def opened(path: Any, flags: int, *options: Any) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_file(path, flags, *options)

    def flushed(descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        flush_file(descriptor)

    monkeypatch.setattr(operating_system, "WINDOWS", True)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(operating_system, "WAIT", 0.01)


def test_a_lock_of_windows_is_exclusive_and_leaves_the_folder_empty(windows: None, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "mine"
    for _ in range(2):
        with exclusive_lock(folder, "training"):
            assert list(folder.iterdir()) == []
            with (
                pytest.raises(LockHeldError, match="another training is at work in"),
                exclusive_lock(folder, "training"),
            ):
                pass
    with wait_for_lock(folder), pytest.raises(LockHeldError), exclusive_lock(folder, "training"):
        pass
    assert [path.name for path in folder.parent.iterdir() if path != folder] == [".mine.lock"]


def test_a_lock_of_windows_is_waited_for(windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = operating_system.lock(tmp_path, wait=False)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.close(held)

    monkeypatch.setattr(operating_system.time, "sleep", sleep)
    with wait_for_lock(tmp_path):
        assert waits == [0.01] * 3


def test_a_folder_without_permission_is_no_lock_that_is_held(windows: None, tmp_path: Path) -> None:
    (tmp_path / ".mine.lock").mkdir()
    with pytest.raises(PermissionError), exclusive_lock(tmp_path / "mine", "training"):
        pass


def test_a_file_system_of_windows_without_locks_is_named(windows: None, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    sys.modules["msvcrt"].locking = refuse  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="this file system has no locks"), exclusive_lock(tmp_path, "training"):
        pass


def test_files_are_flushed_and_folders_left_on_windows(windows: None, tmp_path: Path) -> None:
    atomic_write_text(tmp_path / "file", "a\nb\n")
    flush_to_disk(tmp_path / "file")
    flush_to_disk(tmp_path)
    assert (tmp_path / "file").read_bytes() == b"a\nb\n"


@pytest.mark.parametrize("tries", [1, 3, 99])
def test_a_file_that_another_program_has_open_is_replaced_later(
    tries: int, windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, calls = os.replace, []

    def refused(*paths: Any) -> None:
        calls.append(paths)
        if len(calls) <= tries:
            raise PermissionError(errno.EACCES, "Permission denied")
        replace(*paths)

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr(operating_system, "RENAME_TRIES", 5)
    if tries == 99:
        with pytest.raises(PermissionError):
            atomic_write_text(tmp_path / "file", "new")
        assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
        return
    atomic_write_text(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"
    assert len(calls) == tries + 1


def test_linux_does_not_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refused(*paths: Any) -> None:
        calls.append(paths)
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(operating_system, "WINDOWS", False)
    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(PermissionError):
        atomic_write_text(tmp_path / "file", "new")
    assert len(calls) == 1


def test_macos_empties_the_cache_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[int] = []
    fake = SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda descriptor, command: commands.append(command))
    monkeypatch.setitem(sys.modules, "fcntl", fake)
    monkeypatch.setattr(operating_system, "MACOS", True)
    flush_to_disk(tmp_path)
    assert commands == [51]


# Python of Windows: modules and names that are not there. Other libraries know by `sys.platform` that this is Linux,
# and are imported before; `os.name` itself would change pathlib.
MISSING = """
import importlib, io, math, os, pickle, pkgutil, signal, sys
from pathlib import Path
import transduce

imported = []
for module in pkgutil.walk_packages(transduce.__path__, "transduce."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
            imported.append(module.name)
        except ModuleNotFoundError as error:  # of an extra that is not installed
            assert not error.name.startswith("transduce"), error
assert len(imported) > 200
for name in [name for name in sys.modules if name.startswith("transduce.")]:
    del sys.modules[name]
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
for name in ("O_NOFOLLOW", "O_DIRECTORY", "register_at_fork", "sched_getaffinity", "fork", "mkfifo"):
    delattr(os, name)
for name in ("SIGPIPE", "SIGXFSZ", "SIGHUP", "SIGKILL"):
    delattr(signal, name)
for name in imported:
    importlib.import_module(name)

import torch
from transduce.runtime.memory import peak_memory
from transduce.corpus.worker_pool import _serve
from transduce.runtime.device import count_cores
from transduce.storage import operating_system
from transduce.storage.atomic import LockedFile
assert count_cores() >= 1
assert math.isnan(peak_memory(torch.device("cpu")))
operating_system.WINDOWS = True
LockedFile(Path(sys.argv[1], "new")).close()
received = io.BytesIO()
sys.stdin = io.TextIOWrapper(io.BytesIO(pickle.dumps(abs) + pickle.dumps(-3)))
sys.stdout = io.TextIOWrapper(received)
_serve()
assert pickle.loads(received.getvalue()) == (3, None)
"""


@pytest.mark.slow
def test_every_module_can_be_imported_without_what_windows_lacks(tmp_path: Path) -> None:
    program = [sys.executable, "-c", MISSING, str(tmp_path)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "new").exists()


def test_workers_of_windows_have_a_group_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: given.update(options))
    worker_pool._Worker(abs)
    assert (given["creationflags"], given["process_group"]) == (0x200, 0)
