"""Reads the texts of corpora from archives, on mirrors or in a local folder, or from the Hugging Face hub.

The texts of all languages are read in parallel, line by line.
"""

import gzip
import html
import logging
import re
import shutil
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from transduce.corpus import hub
from transduce.corpus.corpus_kinds import Files
from transduce.corpus.readers import read_byte_pairs
from transduce.fetch.catalogue import Archive, Choice, Location, Part, Section, Table
from transduce.fetch.download import Unavailable, download, find_fault

CHUNK = 1 << 20  # bytes

# An XML parser would reject these files, because they have no root element and contain unescaped ampersands.
_SEGMENT_BEGIN = re.compile(r"<seg\b[^<>]*>", re.IGNORECASE)
_SEGMENT = re.compile(rf"{_SEGMENT_BEGIN.pattern}((?:(?!</?seg\b).)*)</seg\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


class UnusableError(ValueError):
    """Raised when an archive or a text exists but is damaged or has unexpected content."""


def unpack(archive: Path, members: Mapping[str, Path]) -> None:
    """Extracts members of a tar archive, which may be compressed. `members` maps each member to a destination file.

    The archive is read only once, as a stream. The names in the archive are not used as paths, so a hostile archive
    cannot choose where files are written. Raises UnusableError if the archive is damaged, or if a member is missing or
    is not a regular file.
    """
    destinations = dict(members)
    try:
        with tarfile.open(archive, "r|*") as stream:
            for entry in stream:
                destination = destinations.pop(str(PurePosixPath(entry.name)), None)
                if destination is not None:
                    # A link could point to any file on this machine.
                    content = stream.extractfile(entry) if entry.isreg() else None
                    if content is None:
                        raise UnusableError(
                            f"{archive}: {entry.name} is a link or a folder instead of a file; the archive is suspect"
                        )
                    with destination.open("wb") as file:
                        shutil.copyfileobj(content, file, CHUNK)
                if not destinations:
                    return
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnusableError(f"{archive} is a damaged archive ({error}); delete it and run the command again") from None
    raise UnusableError(f"{archive} does not contain {', '.join(sorted(destinations))}; it is not the expected archive")


def plain_text(path: Path, converted: Path) -> Path:
    """Returns the path of a file with one sentence per line.

    This is `path` itself, unless it is an `.sgm` file. The segments of an `.sgm` file are written to `converted`, and
    this path is returned.
    """
    if path.suffix != ".sgm":
        return path
    converted.write_text("".join(f"{segment}\n" for segment in read_segments(path)), "utf-8", newline="\n")
    return converted


def read_segments(path: Path) -> Iterator[str]:
    """Yields the segments of a WMT test set in SGML, with entities decoded and line breaks replaced by spaces.

    Raises UnusableError if the file is not UTF-8 or is truncated.
    """
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableError(f"{path} is not UTF-8 ({error.reason} at byte {error.start:,})") from None
    end = 0
    for match in _SEGMENT.finditer(text):
        end = match.end()
        segment = html.unescape(_TAG.sub("", match[1])).strip()
        yield re.sub(r"\s+", lambda space: " " if {*"\r\n"} & {*space[0]} else space[0], segment)
    if _SEGMENT_BEGIN.search(text, end):
        raise UnusableError(f"{path} ends inside a segment; it is truncated")


_log = logging.getLogger("transduce")


Row = Sequence[bytes]
"""A line in each language, in the order of the files of the part."""

Result = TypeVar("Result")


class ArchiveSource:
    """Reads texts from the archives in the catalogue. The base class of `Mirrors` and `LocalFolder`."""

    name: str

    def __init__(self, archives: Mapping[str, Archive], folder: Path) -> None:
        self._archives, self._folder = archives, folder
        self._verified: dict[str, Path] = {}  # so that each archive is verified only once, because this reads all of it

    def archive(self, location: Location) -> Path | None:
        """Returns the verified archive of a location, or None if the folder contains the unpacked text instead."""
        raise NotImplementedError

    def is_local(self, choice: Choice) -> bool:
        """Returns whether no archive of a choice has to be downloaded."""
        return True

    def bytes_to_download(self, names: Iterable[str]) -> int:
        """Returns the number of bytes to download for the named archives, as far as their sizes are recorded."""
        return 0

    def error(self, message: str) -> Exception:
        """Returns the exception to raise if no choice succeeds."""
        raise NotImplementedError

    def languages(self, part: Part) -> tuple[str, ...]:
        """Returns the languages in which the source has `part`: all languages of the part."""
        return tuple(part.files)

    def required_bytes(self, parts: Sequence[Part]) -> int:
        """Returns the bytes of disk space that are needed for `parts` in addition to the final texts.

        These are the archives to download, as far as their sizes are recorded, and the unpacked texts.
        """
        choices = [self._by_preference(section)[0] for part in parts for section in part.sections]
        names = {location.archive for choice in choices for location in choice.values()}
        return self.bytes_to_download(names) + sum(part.text_bytes for part in parts)

    def download(self, part: Part) -> None:
        """Gets the archives of one choice for each section, and downloads them if necessary."""
        for section in part.sections:
            self._try_choices(section, lambda choice: [self.archive(location) for location in choice.values()])

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Yields every row of `part`, one section after the other. `work` is a folder for temporary files."""
        for section in part.sections:
            texts = self._try_choices(section, lambda choice: self._unpack(choice, work))
            _log.info(f"reading {section.name}")
            first, *rest = map(str, [texts[language] for language in part.files])
            pairs_with_first = [read_byte_pairs(Files(source=first, target=text)) for text in rest]
            for pairs in zip(*pairs_with_first, strict=True):
                yield [pairs[0][0], *(line for _, line in pairs)]
            for path in work.iterdir():  # the next section may need as much disk space
                path.unlink()

    def _by_preference(self, section: Section) -> list[Choice]:
        """Returns the choices of a section. Those that need no download come first."""
        return sorted(section.choices, key=lambda choice: not self.is_local(choice))

    def _try_choices(self, section: Section, use: Callable[[Choice], Result]) -> Result:
        """Returns the result of `use` for the first choice for which it succeeds.

        If it succeeds for none, raises the exception that `error` returns.
        """
        reasons: list[str] = []
        for choice in self._by_preference(section):
            if reasons:
                _log.info(f"{section.name}: trying another archive")
            try:
                return use(choice)
            except (Unavailable, UnusableError) as error:
                reasons.append(str(error))
        raise self.error("\n".join([f"{section.name} could not be fetched.", *reasons]))

    def _unpack(self, choice: Choice, work: Path) -> dict[str, Path]:
        """Returns the path of the text in each language. Each text has one sentence per line.

        Members of archives are extracted to the folder `work`.
        """
        texts, members = {}, defaultdict[Path, dict[str, Path]](dict)
        for language, location in choice.items():
            archive = self.archive(location)
            if archive is None:
                texts[language] = self._folder / location.file
            elif location.member is None:
                texts[language] = archive
            else:
                texts[language] = members[archive][location.member] = work / Path(location.member).name
        for archive, copies in members.items():
            _log.info(f"unpacking {archive.name}")
            unpack(archive, copies)
        return {language: plain_text(path, work / f"{language}.txt") for language, path in texts.items()}


class Mirrors(ArchiveSource):
    """The mirrors in the catalogue. Downloaded archives are kept in `folder`, and are not downloaded again."""

    name = "mirrors"

    def archive(self, location: Location) -> Path | None:
        """Returns the verified archive of a location, which is downloaded first if it is missing or damaged."""
        if (name := location.archive) not in self._verified:
            self._verified[name] = download(name, self._archives[name], self._folder)
        return self._verified[name]

    def is_local(self, choice: Choice) -> bool:
        """Returns whether the folder contains all archives of a choice."""
        return all((self._folder / location.archive).exists() for location in choice.values())

    def bytes_to_download(self, names: Iterable[str]) -> int:
        """Returns the recorded size of the named archives in bytes, minus what has already been downloaded."""
        size = 0
        for name in names:
            files = [self._folder / name, self._folder / f"{name}.part"]
            downloaded = sum(file.stat().st_size for file in files if file.exists())
            size += max(0, (self._archives[name].bytes or 0) - downloaded)
        return size

    def error(self, message: str) -> Exception:
        """Returns an Unavailable exception, because a later attempt or another origin may succeed."""
        return Unavailable(
            f"{message}\nRun the same command again to resume. If you have the archives or the unpacked texts, name "
            "their folder with --from DIR; --from hub downloads from the Hugging Face hub"
        )


class LocalFolder(ArchiveSource):
    """A folder of the user that contains unpacked texts or archives.

    Archives may be directly in the folder, or in the subfolders in which `fetch` stores them.
    """

    name = "folder"

    def archive(self, location: Location) -> Path | None:
        """Returns an undamaged archive of a location, or None if the folder contains the unpacked text instead.

        Raises UnusableError if the folder contains neither.
        """
        if location.archive in self._verified:
            return self._verified[location.archive]
        candidates = [self._folder / location.archive, self._folder / Path(location.archive).name]
        faults = []
        for path in filter(Path.is_file, candidates):
            if (fault := find_fault(path, self._archives[location.archive])) is None:
                self._verified[location.archive] = path
                return path
            faults.append(f"{path} {fault}")
        if (self._folder / location.file).is_file():
            return None
        raise UnusableError("; ".join(faults) or f"{self._folder} has neither {candidates[1].name} nor {location.file}")

    def error(self, message: str) -> Exception:
        """Returns a ValueError, because the user can add the missing files."""
        return ValueError(
            f"{message}\n--from DIR downloads nothing: add the missing files, or run the command without --from"
        )


class HubSource:
    """Reads texts from the Hugging Face hub with the package `datasets`, which resumes and caches downloads."""

    name = "hub"

    def languages(self, part: Part) -> tuple[str, ...]:
        """Returns the languages in which the hub has `part` according to the catalogue; empty if it lacks the part."""
        return (part.hub.languages or tuple(part.files)) if part.hub else ()

    def required_bytes(self, parts: Sequence[Part]) -> int:
        """Returns the size in bytes of the copies that `datasets` keeps in its cache."""
        return sum(part.text_bytes for part in parts)

    def download(self, part: Part) -> None:
        """Downloads the table of `part` to the cache of `datasets`."""
        assert part.hub
        _load_table(part.hub)

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Yields the rows in the table of `part`. `work` is not used."""
        assert part.hub
        for row in hub.read_rows(_load_table(part.hub), self.languages(part), part.hub.dataset):
            yield [side.encode() for side in row]


def _load_table(table: Table) -> Any:
    """Loads a table from the hub; raises Unavailable if the hub does not deliver it."""
    try:
        return hub.load_table(table.dataset, table.config, table.split, needed_by="--from hub")
    except ConnectionError as error:
        raise Unavailable(str(error)) from None


TextSource = ArchiveSource | HubSource
"""A source of the texts of a corpus.

`languages` and `required_bytes` return what it provides and how much disk space it needs. For each part, `download` is
called before `rows`.
"""
