"""A manifest: the size and checksum of each file of a folder, so that whatever has changed is known by its name."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Checksums", "checksum_of", "checksums_of_files", "find_damage"]

Checksums = Mapping[str, Mapping[str, Any]]


def checksum_of(content: bytes) -> dict[str, Any]:
    """What a manifest says of a file with this content."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def checksums_of_files(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """The same of files, by name, reading each once and never the whole of it."""
    return {path.name: {"bytes": path.stat().st_size, "sha256": _checksum(path)} for path in files}


def find_damage(folder: Path, expected: Checksums) -> list[str]:
    """What is wrong with the files of a manifest, a sentence each; nothing where all is as it was written."""
    found = (_fault(folder / name, known) for name, known in expected.items())
    return [fault for fault in found if fault]


def _fault(path: Path, expected: Mapping[str, Any]) -> str | None:
    """What is wrong with one file."""
    if not path.is_file():
        return f"{path.name} is missing"
    if (size := path.stat().st_size) != expected["bytes"]:
        return f"{path.name} has {size:,} bytes where the manifest says {expected['bytes']:,}"
    if _checksum(path) != expected["sha256"]:
        return f"{path.name} has changed since it was written (its checksum differs)"
    return None


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
