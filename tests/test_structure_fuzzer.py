"""The fuzzer of structure, `stress/structure.py`: its changes, what it calls a finding, and a few tries."""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

STRESS = Path(__file__).parents[1] / "stress"


@pytest.fixture(autouse=True)
def stress_is_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(STRESS))


def test_changes_repeat_by_seed_and_change_something():
    from changes import change_json, change_tensors

    values = {"version": 2, "names": ["a", {"b": [1, 2]}], "rate": 0.5}
    header = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    tensors = len(header).to_bytes(8, "little") + header + bytes(16)
    kinds = set()
    for seed in range(300):
        for change, original in ((change_json, values), (change_tensors, tensors)):
            kind, content = change(original, random.Random(seed))
            assert (kind, content) == change(original, random.Random(seed))
            assert b"@hole@" not in content
            kinds.add(kind)
    assert {"JSON, type", "JSON, number", "JSON, twice", "JSON, missing", "JSON, nested"} <= kinds
    assert {"tensors, dtype", "tensors, shape", "tensors, offsets", "tensors, not finite"} <= kinds


def test_checksums_and_seal_are_renewed(tmp_path):
    from changes import write_sealed

    (tmp_path / "ids").write_bytes(b"old")
    (tmp_path / "store.json").write_text('{"files": {"ids": {"bytes": 3, "changed": 1}}, "seal": ""}')
    write_sealed(tmp_path / "ids", b"new one")
    values = json.loads((tmp_path / "store.json").read_text())
    assert values["files"]["ids"] == {"bytes": 7, "changed": 1, "sha256": hashlib.sha256(b"new one").hexdigest()}
    seal = values.pop("seal")
    assert seal == hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize(
    ("code", "output", "messages", "seconds", "memory", "finding"),
    [
        (0, b"-1.5\n", "", 1, 0, None),
        (2, b"", "transduce: a is damaged: its header is not JSON", 1, 0, None),
        (1, b"", "transduce: KeyError: 'version'", 1, 0, "unforeseen"),
        (2, b"", "", 1, 0, "0 messages"),
        (2, b"", "Traceback (most recent call last):", 1, 0, "Traceback"),
        (-11, b"", "", 1, 0, "killed by signal 11"),
        (-14, b"", "", 10, 0, "killed by signal 14 after 10"),
        (2, b"", "transduce: a is damaged", 1, 2 << 30, "2,048 MiB"),
        (0, b"nan\n", "", 1, 0, "not finite"),
    ],
)
def test_findings(code, output, messages, seconds, memory, finding):
    from forked import Outcome
    from structure import Try, find_fault

    fault = find_fault(Try("model: JSON, type", "score", []), Outcome(code, output, messages, seconds, memory))
    assert fault is None if finding is None else finding in (fault or "")


def test_a_file_outside_that_changes_is_noticed(tmp_path):
    from structure import list_files

    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_text("a")
    before = list_files(tmp_path)
    assert list_files(tmp_path) == before
    (tmp_path / "folder" / "x").write_text("b")
    assert list_files(tmp_path).keys() == before.keys()
    assert list_files(tmp_path) != before


@pytest.mark.slow
def test_tries_run(tmp_path):
    ended = subprocess.run(
        [sys.executable, STRESS / "structure.py", "--tries=5"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(STRESS.parent / "src"), "TMPDIR": str(tmp_path)},
    )
    assert "| all |  | 5 |" in ended.stdout, ended.stderr
    assert not ended.stderr
