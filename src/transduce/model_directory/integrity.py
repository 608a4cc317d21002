"""Reading the files of a model directory only when their checksums hold; the fingerprint of a model."""

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transduce.model_directory.manifest import MANIFEST, NEXT, files_of_manifest, read_manifest, require_model
from transduce.storage.checksums import Checksums, checksum_of, find_damage
from transduce.storage.regular_files import read_regular_file

__all__ = ["fingerprint", "read_checked", "verify"]

ATTEMPTS, PAUSE = 5, 0.05  # readings, because a writer may be at work, and seconds between two


def verify(directory: Path) -> list[str]:
    """Returns the faults of the files of the manifest, a sentence each.

    Files with faults are read twice, because a writer may have been replacing them.
    """
    faults = _faults(directory)
    if faults:
        time.sleep(PAUSE)
        faults = _faults(directory)
    return faults


def _faults(directory: Path) -> list[str]:
    """Returns the faults of the files as they are now."""
    require_model(directory)
    faults = []
    for manifest in (NEXT, MANIFEST):
        try:
            files, paths = files_of_manifest(directory, manifest)
        except FileNotFoundError:  # there is none, or a writer has just renamed it to the manifest
            continue
        faults.append(
            [
                fault
                for name, checksum in files.items()
                for fault in find_damage(paths[name].parent, {paths[name].name: checksum})
            ]
        )
    return min(faults, key=len)


def fingerprint(directory: Path) -> str:
    """Returns a checksum of settings, weights and subwords, from the checksums in the manifest."""
    require_model(directory)
    with contextlib.suppress(FileNotFoundError):  # a writer has just renamed it to the manifest
        return _fingerprint(read_manifest(directory / NEXT)["files"])
    return _fingerprint(read_manifest(directory / MANIFEST)["files"])


def _fingerprint(files: Checksums) -> str:
    names = [name for name in files if name.endswith((".json", ".safetensors"))]
    sums = {name: files[name]["sha256"] for name in names}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def read_checked(directory: Path, only: str | None = None) -> dict[str, bytes]:
    """Returns the content of every file of the manifest, or of one; raises ValueError where one is damaged."""
    damaged: list[str] = []
    for attempt in range(ATTEMPTS):
        require_model(directory)
        for manifest in (NEXT, MANIFEST):
            if (directory / manifest).exists():
                contents, damaged = _read(directory, manifest, only)
                if not damaged:
                    return contents
        if attempt + 1 < ATTEMPTS:
            time.sleep(PAUSE)
    raise ValueError(
        f"{directory} is damaged: {', '.join(damaged)}; `transduce info {directory} --verify` says more. "
        "Take the files from a backup, or train again"
    )


def _read(directory: Path, manifest: str, only: str | None) -> tuple[dict[str, bytes], list[str]]:
    """Returns the content of the files of a manifest, or of one, and the names of the damaged ones."""
    try:
        files, paths = files_of_manifest(directory, manifest)
    except FileNotFoundError:  # a writer has just renamed it to the manifest
        return {}, [manifest]
    names = [only] if only else [*files]
    contents = {name: _content(paths[name], files[name]) for name in names}
    damaged = [name for name in names if checksum_of(contents[name]) != files[name]]
    return contents, damaged


def _content(path: Path, checksum: Mapping[str, Any]) -> bytes:
    """Returns the content of a regular file that is not longer than its checksum says, else nothing."""
    try:
        return read_regular_file(path, checksum["bytes"])
    except (FileNotFoundError, ValueError):  # a writer is replacing the file, or it is damaged
        return b""
