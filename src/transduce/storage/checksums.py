"""Computes and checks the sizes and checksums of files, which manifests use to detect changed files."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Checksums = Mapping[str, Mapping[str, Any]]
"""An entry for each file, by name, with the keys `bytes` (the size) and `sha256`."""


def checksum_of(content: bytes) -> dict[str, Any]:
    """Returns the entry of a file with the given content: its size in `bytes`, and its `sha256` checksum."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def checksums_of_files(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Returns the entries of several files by name; each file is read only once, in blocks."""
    return {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files}


def find_damage(folder: Path, expected: Checksums) -> list[str]:
    """Returns one sentence for each file in `folder` that is missing or differs from its `expected` entry."""
    faults = (_fault(folder / name, checksum) for name, checksum in expected.items())
    return [fault for fault in faults if fault]


def _fault(path: Path, expected: Mapping[str, Any]) -> str | None:
    """Returns a sentence that says how a file differs from its `expected` entry, or None if it does not."""
    if not path.is_file():
        return f"{path.name} is missing"
    if (size := path.stat().st_size) != expected["bytes"]:
        return f"{path.name} has {size:,} bytes where the manifest says {expected['bytes']:,}"
    if _sha256(path) != expected["sha256"]:
        return f"{path.name} has changed since it was written (its checksum differs)"
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
