"""The manifest of a model directory: the names of its files, their sizes and their checksums."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from transduce.settings import Spec, check_version, validated
from transduce.storage.checksums import Checksums
from transduce.storage.regular_files import MAX_JSON_BYTES, read_regular_file

__all__ = [
    "CARD",
    "CONFIG",
    "MANIFEST",
    "NEXT",
    "RECIPE",
    "VERSION",
    "WEIGHTS",
    "Entry",
    "Manifest",
    "files_of_manifest",
    "has_model",
    "path_aside",
    "read_manifest",
    "require_model",
]

VERSION: Literal[1] = 1  # of the manifest
CONFIG, WEIGHTS, MANIFEST, RECIPE, CARD = (
    "config.json",
    "model.safetensors",
    "manifest.json",
    "recipe.yaml",
    "README.md",
)
NEXT = ".manifest.next.json"  # the manifest of a new model whose files are not all in their places yet


class Entry(Spec):
    """The size and the checksum of a file."""

    bytes: int = Field(ge=0)
    sha256: str


class Manifest(Spec):
    """The content of `manifest.json`: files of the directory by name."""

    version: Literal[1] = VERSION
    files: dict[Annotated[str, Field(pattern=r"^[^/\\]+$")], Entry]
    card: Entry | None = None


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads `files` and `card` of a manifest; raises ValueError where it is damaged or lists no whole model."""
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
            f"{path} is damaged: it is no manifest; take it from a backup, or delete it if a run is to go on"
        )
    check_version(values, VERSION, place=str(path))
    manifest = validated(Manifest, values, place=f"{path} is damaged").as_dictionary()
    if missing := [name for name in (CONFIG, WEIGHTS) if name not in manifest["files"]]:
        raise ValueError(f"{path} is damaged: it does not list {', '.join(missing)}")
    return manifest


def has_model(directory: Path) -> bool:
    """Returns whether the directory has a model, even where a writer was interrupted."""
    return (directory / MANIFEST).exists() or (directory / NEXT).exists()


def require_model(directory: Path) -> None:
    """Raises ValueError where the directory holds no model."""
    if not directory.is_dir():
        fault = f"{directory} is a file" if directory.exists() else f"there is no model directory {directory}"
        raise ValueError(f"{fault}; name one that `transduce train RECIPE --out DIRECTORY` has made")
    if not has_model(directory):
        reason = ", its training has written no model yet" if (directory / "training").exists() else ""
        raise ValueError(
            f"{directory} is no model directory: it has no {MANIFEST}{reason}; "
            f"`transduce train RECIPE --out {directory}` makes one"
        )


def path_aside(directory: Path, name: str) -> Path:
    """Returns the path at which a new file is written, beside its place."""
    return directory / f".{name}.next"


def files_of_manifest(directory: Path, manifest: str) -> tuple[Checksums, dict[str, Path]]:
    """Returns the checksums of a manifest, and the path of each file: beside its place, or in its place already."""
    files: Checksums = read_manifest(directory / manifest)["files"]
    waiting = {name: path_aside(directory, name) for name in files if manifest == NEXT}
    return files, {
        name: waiting[name] if name in waiting and waiting[name].exists() else directory / name for name in files
    }
