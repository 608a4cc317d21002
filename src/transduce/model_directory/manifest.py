"""The manifest of a model directory: names, sizes and checksums of its files; a file is read only if they match."""

import hashlib
import json
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from transduce.settings import Spec, check_version, validated
from transduce.storage.checksums import Checksums, checksum_of, find_damage
from transduce.storage.nearby_paths import did_you_mean_model
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file

VERSION: Literal[1] = 1  # of the manifest
CONFIG, WEIGHTS, MANIFEST, RECIPE, CARD = (
    "config.json",
    "model.safetensors",
    "manifest.json",
    "recipe.yaml",
    "README.md",
)
NEXT = ".manifest.next.json"  # the manifest of a new model whose files are not all in place yet


class Entry(Spec):
    """The size and the checksum of a file."""

    bytes: int = Field(ge=0)
    sha256: str


class Manifest(Spec):
    """The content of `manifest.json`: the files of the directory by name."""

    version: Literal[1] = VERSION
    files: dict[Annotated[str, Field(pattern=r"^[^/\\]+$")], Entry]
    card: Entry | None = None


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads `files` and `card` of a manifest; raises ValueError if it is damaged or does not list a whole model."""
    content = read_regular_file(path, MAX_JSON_BYTES)
    try:
        values = json.loads(content)
        version, fetched = values["version"] if "files" in values else None, "parts" in values
    except (ValueError, KeyError, TypeError, RecursionError):
        version, fetched = None, False
    if fetched:
        raise ValueError(f"{path.parent} holds a corpus that `transduce fetch` has brought, and no model")
    if version is None:
        raise ValueError(
            f"{path} is damaged: it is not a manifest; take it from a backup, or delete it if a run is to go on"
        )
    check_version(values, VERSION, place=str(path))
    manifest = validated(Manifest, values, place=f"{path} is damaged").as_dictionary()
    if missing := [name for name in (CONFIG, WEIGHTS) if name not in manifest["files"]]:
        raise ValueError(f"{path} is damaged: it does not list {', '.join(missing)}")
    return manifest


def has_model(directory: Path) -> bool:
    """Whether the directory has a model, even if a writer was interrupted."""
    return (directory / MANIFEST).exists() or (directory / NEXT).exists()


def require_model(directory: Path) -> None:
    """Raises ValueError if the directory holds no model."""
    if not directory.is_dir():
        fault = f"{directory} is a file" if directory.exists() else f"there is no model directory {directory}"
        advice = "; name a model directory, as `transduce train RECIPE --out DIRECTORY` or `transduce import` makes"
        raise ValueError(f"{fault}{did_you_mean_model(directory, MANIFEST) or advice}")
    if not has_model(directory):
        reason = ", its training has written no model yet" if (directory / "training").exists() else ""
        advice = did_you_mean_model(directory, MANIFEST) or f"; `transduce train RECIPE --out {directory}` makes one"
        raise ValueError(f"{directory} is not a model directory: it has no {MANIFEST}{reason}{advice}")


def path_aside(directory: Path, name: str) -> Path:
    """The path at which a new version of a file is written before it is moved into place."""
    return directory / f".{name}.next"


def files_of_manifest(directory: Path, manifest: str) -> tuple[Checksums, dict[str, Path]]:
    """Returns the checksums of a manifest and the path of each file, which may not have been moved into place yet."""
    files: Checksums = read_manifest(directory / manifest)["files"]
    waiting = {name: path_aside(directory, name) for name in files if manifest == NEXT}
    return files, {
        name: waiting[name] if name in waiting and waiting[name].exists() else directory / name for name in files
    }


ATTEMPTS, PAUSE = 5, 0.05  # attempts to read, because a writer may be active, and seconds between two attempts


def verify(directory: Path) -> list[str]:
    """Checks the files of the manifest; returns one sentence for each fault.

    Files with faults are read twice, because a writer may have been replacing them.
    """
    faults = _faults(directory)
    if faults:
        time.sleep(PAUSE)
        faults = _faults(directory)
    return faults


def _faults(directory: Path) -> list[str]:
    """Faults of the files as they are now."""
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
    """Returns a checksum over settings, weights and subwords, computed from the checksums in the manifest."""
    require_model(directory)
    try:
        files = read_manifest(directory / NEXT)["files"]
    except FileNotFoundError:  # there is none, or a writer has just renamed it to the manifest
        files = read_manifest(directory / MANIFEST)["files"]
    names = [name for name in files if name.endswith((".json", ".safetensors"))]
    sums = {name: files[name]["sha256"] for name in names}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def read_checked(directory: Path, only: str | None = None) -> dict[str, bytes]:
    """Reads every file of the manifest, or only the file `only`; raises ValueError if one is damaged."""
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
    """Reads the files of a manifest, or only one; returns their contents and the names of damaged files."""
    try:
        files, paths = files_of_manifest(directory, manifest)
    except FileNotFoundError:  # a writer has just renamed it to the manifest
        return {}, [manifest]
    names = [only] if only else [*files]
    contents = {}
    for name in names:
        try:
            contents[name] = read_regular_file(paths[name], files[name]["bytes"])
        except (FileNotFoundError, ValueError):  # a writer is replacing the file, or it is damaged
            contents[name] = b""
    damaged = [name for name in names if checksum_of(contents[name]) != files[name]]
    return contents, damaged
