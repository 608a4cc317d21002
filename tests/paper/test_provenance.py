"""Where a result comes from: the program's commit, and whether the program was another."""

import shutil
import subprocess
from pathlib import Path

import pytest

import transduce
from transduce.paper.provenance import program_version


@pytest.fixture(autouse=True)
def asked_anew():
    program_version.cache_clear()
    yield
    program_version.cache_clear()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_what_makes_a_commit_dirty_is_the_program_and_not_what_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, table = tmp_path / "src" / "__init__.py", tmp_path / "table.md"
    source.parent.mkdir()
    source.write_text("")
    monkeypatch.setattr(transduce, "__file__", str(source))
    assert program_version() == transduce.__version__
    program_version.cache_clear()
    for command in (["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True, capture_output=True)
    table.write_text("new")
    clean = program_version()
    assert clean.startswith(f"{transduce.__version__} at ")
    assert not clean.endswith("-dirty")
    source.write_text("changed = True\n")
    assert program_version() == clean, "it runs on as it began"
    program_version.cache_clear()
    assert program_version() == f"{clean}-dirty"
