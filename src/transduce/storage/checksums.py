"""Sizes and checksums of files, with which a manifest detects that a file has changed."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Checksums = Mapping[str, Mapping[str, Any]]
"""`bytes` and `sha256` of each file, by its name."""


def checksum_of(content: bytes) -> dict[str, Any]:
    """The entry (`bytes` and `sha256`) of a file with this content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def checksums_of_files(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """The entry (`bytes` and `sha256`) of each file, by name; reads each file once, in blocks."""
    return {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files}


def find_damage(folder: Path, expected: Checksums) -> list[str]:
    """A sentence for each file of `folder` that is missing or differs from its expected checksum."""
    faults = (_fault(folder / name, checksum) for name, checksum in expected.items())
    return [fault for fault in faults if fault]


def _fault(path: Path, expected: Mapping[str, Any]) -> str | None:
    """How a file differs from its expected checksum; None if it does not differ."""
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
