"""The folder of a corpus: parts land in it whole or not at all, and a manifest says what they were when they did."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.checksums import checksums_of_files, find_damage

__all__ = ["Landing"]

VERSION = 1
MANIFEST = "manifest.json"
WORK = ".fetching"  # what is being written, and what is needed for it


class Landing:
    """One corpus in one folder. Files that are not as its manifest has them are never written over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / WORK / "unpacked"
        self._written = folder / WORK
        self.parts: dict[str, dict[str, Any]] = {}
        if (folder / MANIFEST).exists():
            self.parts = _parts_of(folder / MANIFEST)
        self._settle()

    def _settle(self) -> None:
        """Moves into place what the manifest counts as there, and forgets whatever else was begun."""
        for part in self.parts.values():
            for name, known in part["files"].items():
                if not (self.folder / name).exists() and not find_damage(self._written, {name: known}):
                    (self._written / name).replace(self.folder / name)
        shutil.rmtree(self._written, ignore_errors=True)

    def lacks(self, name: str, files: Iterable[str]) -> bool:
        """Whether a part has yet to be fetched; a `ValueError` where that would write over what is not ours."""
        known = self.parts.get(name, {}).get("files", {})
        for file in files:
            path = self.folder / file
            if path.exists() and (file not in known or find_damage(self.folder, {file: known[file]})):
                raise ValueError(
                    f"{path} is there already and is not as `fetch` has written it; it is left alone. Move it away and "
                    "run the command again, or choose another --out"
                )
        return any(not (self.folder / file).exists() for file in files)

    def land(
        self, name: str, files: Sequence[str], rows: Iterable[Sequence[str]], account: Callable[[], dict[str, Any]]
    ) -> None:
        """Writes a part: `rows`, line by line, to `files`, side by side; what `account` says afterwards is recorded."""
        self.work.mkdir(parents=True, exist_ok=True)
        paths = [self._written / file for file in files]
        with ExitStack() as stack:
            sides = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
            for row in rows:
                for side, text in zip(sides, row, strict=True):
                    side.write(text + "\n")
        for path in paths:
            flush_to_disk(path)
        known = self.parts.get(name, {}).get("files", {})
        self.parts[name] = {"files": {**known, **checksums_of_files(paths)}, **account()}
        # From here on the part counts: should the moves be cut short, the next start finishes them.
        text = json.dumps({"version": VERSION, "parts": self.parts}, indent=2) + "\n"
        atomic_write_text(self.folder / MANIFEST, text)
        for path in paths:
            path.replace(self.folder / path.name)
        flush_to_disk(self.folder)
        shutil.rmtree(self._written)


def _parts_of(manifest: Path) -> dict[str, dict[str, Any]]:
    """The parts in a manifest; a `ValueError` where it is none."""
    try:
        values = json.loads(manifest.read_text("utf-8"))
        version, parts = values["version"], dict(values["parts"])
        if version == VERSION:
            parts = {name: {**part, "files": dict(part["files"])} for name, part in parts.items()}
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{manifest} is no manifest of `fetch`; move the folder away, or choose another --out"
        ) from None
    if version != VERSION:
        raise ValueError(f"{manifest} has version {version}; this program reads version {VERSION}")
    return parts
