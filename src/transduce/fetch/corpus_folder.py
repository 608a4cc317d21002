"""Stores a corpus on disk: cleans and counts its rows, writes its parts, and records checksums in a manifest."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transduce.fetch.catalogue import Part
from transduce.fetch.sources import Row
from transduce.storage.atomic import atomic_write_text, flush_to_disk
from transduce.storage.checksums import checksums_of_files, find_damage

BREAKS = re.compile("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
"""Characters that some programs treat as the end of a line. In a corpus, a line ends only at a newline."""

EMPTY, NOT_UTF8 = "with an empty side", "with a side that is not UTF-8"


class CleaningCounts:
    """The numbers of pairs that were read, kept, dropped and mended.

    `dropped` counts pairs by the reason for which they were dropped. In a mended pair, a line break was replaced by a
    space.
    """

    def __init__(self) -> None:
        self.read, self.kept, self.mended = 0, 0, 0
        self.dropped: Counter[str] = Counter()

    def as_dictionary(self) -> dict[str, Any]:
        """Returns the numbers as JSON values."""
        return {"read": self.read, "kept": self.kept, "dropped": dict(self.dropped), "mended": self.mended}

    def __str__(self) -> str:
        dropped = "".join(f", {count:,} dropped {reason}" for reason, count in self.dropped.items())
        mended = f", line breaks replaced by spaces in {self.mended:,}" if self.mended else ""
        return f"{self.kept:,} pairs kept{dropped}{mended}"


def clean(rows: Iterable[Row], part: Part, counts: CleaningCounts) -> Iterator[list[str]]:
    """Yields the rows of `part` that are kept, decoded to text, and counts all rows in `counts`.

    Line breaks within a side become spaces. Rows with an empty side, and rows that are not UTF-8, are dropped. If the
    number of pairs in the part is published, no rows are dropped; instead, raises ValueError if a line is not UTF-8 or
    if the number of pairs differs from the published one.
    """
    for row in rows:
        counts.read += 1
        try:
            texts = [side.decode() for side in row]
        except UnicodeDecodeError:
            if part.pairs is not None:
                raise ValueError(f"{part.name}: line {counts.read:,} is not UTF-8; the text is damaged") from None
            counts.dropped[NOT_UTF8] += 1
            continue
        if part.pairs is None and not all(map(str.strip, texts)):
            counts.dropped[EMPTY] += 1
            continue
        counts.kept += 1
        counts.mended += any(map(BREAKS.search, texts))
        yield [BREAKS.sub(" ", text) for text in texts]
    if part.pairs is not None and counts.read != part.pairs:
        raise ValueError(
            f"{part.name} has {counts.read:,} pairs where {part.pairs:,} are expected; it is not the published text"
        )


VERSION = 1
MANIFEST = "manifest.json"
WORK = ".fetching"  # subfolder for files that are not yet complete


class CorpusFolder:
    """The folder with the files of one corpus. A file that differs from the manifest is never overwritten."""

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
                    f"{manifest} is not a manifest of `fetch`; move the folder away, or choose another --out"
                ) from None
            if version != VERSION:
                raise ValueError(f"{manifest} has version {version}; this program reads version {VERSION}")
            self.parts = parts
        # Complete files that the manifest already records are moved into place. All other unfinished work is deleted.
        for part in self.parts.values():
            for name, checksum in part["files"].items():
                if not (self.path / name).exists() and not find_damage(self._unfinished, {name: checksum}):
                    (self._unfinished / name).replace(self.path / name)
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def lacks(self, name: str, files: Iterable[str]) -> bool:
        """Returns True if one of the files of the part `name` is missing.

        Raises ValueError if a file exists but is not as `fetch` wrote it.
        """
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
        """Writes the columns of `rows` to `files`, with one line per row, and records the part in the manifest.

        The manifest also records the origin of the rows and `counts`, which are complete after the last row.
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
        # The manifest is written before the files are moved. After a crash, the next `CorpusFolder` moves them.
        text = json.dumps({"version": VERSION, "parts": self.parts}, indent=2) + "\n"
        atomic_write_text(self.path / MANIFEST, text)
        for path in paths:
            path.replace(self.path / path.name)
        flush_to_disk(self.path)
        shutil.rmtree(self._unfinished)
