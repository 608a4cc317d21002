"""The version of the program in a result: commit, and whether the working copy differs from it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import transduce
from transduce.paper.provenance import program_version


@pytest.fixture(autouse=True)
def clear_cached_version():
    program_version.cache_clear()
    yield
    program_version.cache_clear()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_changes_to_the_program_make_a_version_dirty_and_other_files_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, table = tmp_path / "src" / "__init__.py", tmp_path / "table.md"
    source.parent.mkdir()
    source.write_text("")
    monkeypatch.setattr(transduce, "__file__", str(source))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    assert program_version() == transduce.__version__
    program_version.cache_clear()
    for command in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True, capture_output=True)
    table.write_text("new")
    clean = program_version()
    assert clean.startswith(f"{transduce.__version__} at ")
    assert not clean.endswith("-dirty")
    source.write_text("changed = True\n")
    assert program_version() == clean, "the version is that of the first call"
    program_version.cache_clear()
    assert program_version() == f"{clean}-dirty"
