"""The folder of a corpus: its parts are written atomically, and a manifest records their checksums."""

import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transduce.fetch.clean import CleaningCounts
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.checksums import checksums_of_files, find_damage

VERSION = 1
MANIFEST = "manifest.json"
WORK = ".fetching"  # subfolder for files that are not complete yet


class CorpusFolder:
    """The files of one corpus; a file that differs from the manifest is never overwritten."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / WORK / "unpacked"
        self._unfinished = path / WORK
        self.parts: dict[str, dict[str, Any]] = {}
        if (path / MANIFEST).exists():
            manifest = path / MANIFEST
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
            self.parts = parts
        # Files that the manifest already records are moved into place; all other unfinished work is deleted.
        for part in self.parts.values():
            for name, checksum in part["files"].items():
                if not (self.path / name).exists() and not find_damage(self._unfinished, {name: checksum}):
                    (self._unfinished / name).replace(self.path / name)
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def lacks(self, name: str, files: Iterable[str]) -> bool:
        """Whether a file of the part `name` is missing; raises ValueError for a file that `fetch` has not written."""
        checksums = self.parts.get(name, {}).get("files", {})
        for file in files:
            path = self.path / file
            if path.exists() and (file not in checksums or find_damage(self.path, {file: checksums[file]})):
                raise ValueError(
                    f"{path} exists and is not as `fetch` has written it; it is not overwritten. Move it away and "
                    "run the command again, or choose another --out"
                )
        return any(not (self.path / file).exists() for file in files)

    def write_part(
        self, name: str, files: Sequence[str], rows: Iterable[Sequence[str]], origin: str, counts: CleaningCounts
    ) -> None:
        """Writes the columns of `rows` to `files`, a line a row, and records the part in the manifest.

        The manifest also gets the origin of the rows, and their `counts` after the last one.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        paths = [self._unfinished / file for file in files]
        with ExitStack() as stack:
            sides = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
            for row in rows:
                for side, text in zip(sides, row, strict=True):
                    side.write(text + "\n")
        for path in paths:
            flush_to_disk(path)
        earlier = self.parts.get(name, {}).get("files", {})
        checksums = checksums_of_files(paths)
        self.parts[name] = {"files": {**earlier, **checksums}, "from": origin, **counts.as_dictionary()}
        # The manifest is written before the files move: after a crash, the next `CorpusFolder` moves them.
        text = json.dumps({"version": VERSION, "parts": self.parts}, indent=2) + "\n"
        atomic_write_text(self.path / MANIFEST, text)
        for path in paths:
            path.replace(self.path / path.name)
        flush_to_disk(self.path)
        shutil.rmtree(self._unfinished)
