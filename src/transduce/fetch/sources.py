"""Sources of texts: archives from mirrors or a local folder, and tables on the Hugging Face hub.

The texts of all languages in an archive are read in parallel.
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

# An XML parser would refuse these files: they have no root, and unescaped ampersands.
_SEGMENT_BEGIN = re.compile(r"<seg\b[^<>]*>", re.IGNORECASE)
_SEGMENT = re.compile(rf"{_SEGMENT_BEGIN.pattern}((?:(?!</?seg\b).)*)</seg\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


class UnusableError(ValueError):
    """An archive or a text exists, but is damaged or has unexpected content."""


def unpack(archive: Path, members: Mapping[str, Path]) -> None:
    """Copies members of a tar archive, plain or compressed, to the files that `members` maps them to.

    The archive is read once, as a stream. Names in the archive never become paths, so a hostile archive cannot
    choose where to write. Raises UnusableError if a member is missing or not a file, or the archive is damaged.
    """
    destinations = dict(members)
    try:
        with tarfile.open(archive, "r|*") as stream:
            for entry in stream:
                destination = destinations.pop(str(PurePosixPath(entry.name)), None)
                if destination is not None:
                    # A link could lead to any file of this machine.
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
    """Returns a file with one sentence per line: `path` or, if it is an .sgm file, `converted`, to which its segments
    are written.
    """
    if path.suffix != ".sgm":
        return path
    converted.write_text("".join(f"{segment}\n" for segment in read_segments(path)), "utf-8", newline="\n")
    return converted


def read_segments(path: Path) -> Iterator[str]:
    """Yields the segments of a WMT test set in SGML, with entities decoded and line breaks replaced by spaces."""
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
"""One line of each language, in the order of the part's files."""

Result = TypeVar("Result")


class ArchiveSource:
    """Reads texts from the archives of the catalogue, which are in a folder or are downloaded to it from mirrors."""

    name: str

    def __init__(self, archives: Mapping[str, Archive], folder: Path) -> None:
        self._archives, self._folder = archives, folder
        self._verified: dict[str, Path] = {}  # each archive is verified once, because verifying reads all of it

    def archive(self, location: Location) -> Path | None:
        """Returns the verified archive of a location; None if the folder contains the unpacked text instead."""
        raise NotImplementedError

    def is_local(self, choice: Choice) -> bool:
        """Whether no archive of a choice has to be downloaded."""
        return True

    def bytes_to_download(self, names: Iterable[str]) -> int:
        """Recorded bytes of the named archives that have to be downloaded."""
        return 0

    def error(self, message: str) -> Exception:
        """The error to raise if no choice succeeds."""
        raise NotImplementedError

    def languages(self, part: Part) -> tuple[str, ...]:
        """Languages in which the source has `part`: all of them."""
        return tuple(part.files)

    def required_bytes(self, parts: Sequence[Part]) -> int:
        """Returns the bytes of disk space that `parts` take besides the final texts, as far as sizes are recorded.

        This is the size of the archives to download, plus the size of the texts, because they are unpacked first.
        """
        choices = [self._by_preference(section)[0] for part in parts for section in part.sections]
        names = {location.archive for choice in choices for location in choice.values()}
        return self.bytes_to_download(names) + sum(part.text_bytes for part in parts)

    def download(self, part: Part) -> None:
        """Fetches the archives of one choice for each section."""
        for section in part.sections:
            self._try_choices(section, lambda choice: [self.archive(location) for location in choice.values()])

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Yields every row of `part`, one section after the other; `work` is a folder for temporary files."""
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
        """Choices of a section; choices without a download come first."""
        return sorted(section.choices, key=lambda choice: not self.is_local(choice))

    def _try_choices(self, section: Section, use: Callable[[Choice], Result]) -> Result:
        """The result of `use` for the first choice that succeeds; raises the origin's error if none does."""
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
        """The text of each language, one sentence per line; members of archives are copied to `work`."""
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
    """The mirrors of the catalogue; `folder` keeps the downloaded archives, which are not downloaded again."""

    name = "mirrors"

    def archive(self, location: Location) -> Path | None:
        """The verified archive of a location, which is downloaded if the folder lacks it or if it is damaged."""
        if (name := location.archive) not in self._verified:
            self._verified[name] = download(name, self._archives[name], self._folder)
        return self._verified[name]

    def is_local(self, choice: Choice) -> bool:
        """Whether the folder has all archives of a choice."""
        return all((self._folder / location.archive).exists() for location in choice.values())

    def bytes_to_download(self, names: Iterable[str]) -> int:
        """Recorded bytes of the named archives, minus the bytes that are already downloaded."""
        size = 0
        for name in names:
            files = [self._folder / name, self._folder / f"{name}.part"]
            downloaded = sum(file.stat().st_size for file in files if file.exists())
            size += max(0, (self._archives[name].bytes or 0) - downloaded)
        return size

    def error(self, message: str) -> Exception:
        """Builds an Unavailable, because a later attempt or another origin may succeed."""
        return Unavailable(
            f"{message}\nRun the same command again to resume. If you have the archives or the unpacked texts, name "
            "their folder with --from DIR; --from hub downloads from the Hugging Face hub"
        )


class LocalFolder(ArchiveSource):
    """A user's folder with unpacked texts or with archives, side by side or in subfolders as `fetch` keeps them."""

    name = "folder"

    def archive(self, location: Location) -> Path | None:
        """Returns the first undamaged archive of that name; None if the folder contains the unpacked text instead.

        Raises UnusableError if it has neither.
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
        """Builds a ValueError, because the user can add the files."""
        return ValueError(
            f"{message}\n--from DIR downloads nothing: add the missing files, or run the command without --from"
        )


class HubSource:
    """Reads texts from the Hugging Face hub through the package `datasets`, which downloads, resumes and caches."""

    name = "hub"

    def languages(self, part: Part) -> tuple[str, ...]:
        """Languages in which the hub has `part`, as the catalogue lists them; none if the hub lacks the part."""
        return (part.hub.languages or tuple(part.files)) if part.hub else ()

    def required_bytes(self, parts: Sequence[Part]) -> int:
        """Bytes of the copies in the package's cache."""
        return sum(part.text_bytes for part in parts)

    def download(self, part: Part) -> None:
        """Downloads the table to the package's cache."""
        assert part.hub
        _load_table(part.hub)

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Yields the rows of the table."""
        assert part.hub
        for row in hub.read_rows(_load_table(part.hub), self.languages(part), part.hub.dataset):
            yield [side.encode() for side in row]


def _load_table(table: Table) -> Any:
    """Loads a table of the hub; raises Unavailable if the hub does not deliver it."""
    try:
        return hub.load_table(table.dataset, table.config, table.split, needed_by="--from hub")
    except ConnectionError as error:
        raise Unavailable(str(error)) from None


TextSource = ArchiveSource | HubSource
"""Provides the texts of a corpus: `languages`, `download`, then `rows`; `required_bytes` is the disk space it needs."""
