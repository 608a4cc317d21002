"""The manifest of a model directory, which lists the names, sizes and checksums of its files.

A file of a model directory is read only if its size and its checksum match the manifest.
"""

import hashlib
import json
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from transduce.settings import Spec, check_version, validated
from transduce.storage.checksums import Checksums, checksum_of, find_damage
from transduce.storage.nearby_paths import did_you_mean_model, is_name_on_hub
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file

VERSION: Literal[1] = 1  # version of the manifest's format
CONFIG, WEIGHTS, MANIFEST, RECIPE, CARD = (
    "config.json",
    "model.safetensors",
    "manifest.json",
    "recipe.yaml",
    "README.md",
)
NEXT = ".manifest.next.json"  # the manifest of a new model while its files are being moved into place


class Entry(Spec):
    """The size and the checksum of a file in the manifest."""

    bytes: int = Field(ge=0)
    sha256: str


class Manifest(Spec):
    """The content of `manifest.json`, which lists the files of the model directory by name."""

    version: Literal[1] = VERSION
    files: dict[Annotated[str, Field(pattern=r"^[^/\\]+$")], Entry]
    card: Entry | None = None


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads a manifest and returns it as a dictionary with the keys `version`, `files` and `card`.

    Raises ValueError if the manifest is damaged, or if it does not list the settings and the weights of a model.
    """
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
    """Returns True if the directory contains a model, even one whose replacement was interrupted."""
    return (directory / MANIFEST).exists() or (directory / NEXT).exists()


def require_model(directory: Path) -> None:
    """Raises ValueError if `directory` contains no model or does not exist.

    The message suggests a model directory that the user may have meant, if there is one.
    """
    if not directory.is_dir():
        fault = f"{directory} is a file" if directory.exists() else f"there is no model directory {directory}"
        advice = "; name a model directory, as `transduce train RECIPE --out DIRECTORY` or `transduce import` makes"
        if is_name_on_hub(directory):
            advice = (
                f"; `hf download {directory} --local-dir X` and `transduce import X --out {directory.name}` make one"
            )
        raise ValueError(f"{fault}{did_you_mean_model(directory, MANIFEST) or advice}")
    if not has_model(directory):
        reason = ", its training has written no model yet" if (directory / "training").exists() else ""
        advice = did_you_mean_model(directory, MANIFEST) or f"; `transduce train RECIPE --out {directory}` makes one"
        raise ValueError(f"{directory} is not a model directory: it has no {MANIFEST}{reason}{advice}")


def path_aside(directory: Path, name: str) -> Path:
    """Returns the path where the new version of a file is written before it is moved into place."""
    return directory / f".{name}.next"


def files_of_manifest(directory: Path, manifest: str) -> tuple[Checksums, dict[str, Path]]:
    """Returns the checksums in a manifest, and the current path of each of its files.

    If `manifest` is `NEXT`, some of the files may not have been moved into place yet.
    """
    files: Checksums = read_manifest(directory / manifest)["files"]
    waiting = {name: path_aside(directory, name) for name in files if manifest == NEXT}
    return files, {
        name: waiting[name] if name in waiting and waiting[name].exists() else directory / name for name in files
    }


# Number of attempts to read a model directory, which may fail while it is being replaced, and seconds between them.
ATTEMPTS, PAUSE = 5, 0.05


def verify(directory: Path) -> list[str]:
    """Checks all files of a model directory against its manifest, and returns one sentence for each fault found.

    If there are faults, the files are checked a second time, because they may have been replaced during the check.
    """
    faults = _faults(directory)
    if faults:
        time.sleep(PAUSE)
        faults = _faults(directory)
    return faults


def _faults(directory: Path) -> list[str]:
    """Returns one sentence for each fault that a single check of the files finds."""
    require_model(directory)
    faults = []
    for manifest in (NEXT, MANIFEST):
        try:
            files, paths = files_of_manifest(directory, manifest)
        except FileNotFoundError:  # there is no such manifest, or a writer has just renamed `NEXT` to `MANIFEST`
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
    """Returns a checksum of the settings, weights and subwords of a model, computed from those in its manifest."""
    require_model(directory)
    try:
        files = read_manifest(directory / NEXT)["files"]
    except FileNotFoundError:  # there is no such manifest, or a writer has just renamed `NEXT` to `MANIFEST`
        files = read_manifest(directory / MANIFEST)["files"]
    names = [name for name in files if name.endswith((".json", ".safetensors"))]
    sums = {name: files[name]["sha256"] for name in names}
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def read_checked(directory: Path, only: str | None = None) -> dict[str, bytes]:
    """Reads all files in the manifest of a model directory, or only the file `only`, and returns their contents.

    Raises ValueError if there is no model, or if a file that was read is damaged.
    """
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
    """Reads the files in one manifest, or only the file `only`.

    Returns the contents of the files by name, and the names of damaged files.
    """
    try:
        files, paths = files_of_manifest(directory, manifest)
    except FileNotFoundError:  # a writer has just renamed `NEXT` to `MANIFEST`
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
