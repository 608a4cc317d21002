"""Extracts texts: members of tar archives, segments of SGML files."""

import gzip
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath

CHUNK = 1 << 20  # bytes


class UnusableError(ValueError):
    """An archive or a text exists, but is damaged or has an unexpected content."""


def unpack(archive: Path, members: Mapping[str, Path]) -> None:
    """Copies members of a tar archive, plain or compressed, to the files that `members` maps them to.

    The archive is read once, as a stream. Names in the archive never become paths, so a hostile archive cannot
    choose where to write. Raises UnusableError where a member is missing or not a file, or the archive is damaged.
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
    """Returns a file with a sentence a line: `path` itself, or `converted`, which gets the segments of an .sgm file."""
    if path.suffix != ".sgm":
        return path
    converted.write_text("".join(f"{segment}\n" for segment in read_segments(path)), "utf-8", newline="\n")
    return converted


def read_segments(path: Path) -> Iterator[str]:
    """Yields the segments of a WMT test set in SGML, with entities decoded and line breaks replaced by spaces."""
    parser = _SegmentParser()
    try:
        parser.feed(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise UnusableError(f"{path} is not UTF-8 ({error.reason} at byte {error.start:,})") from None
    parser.close()
    if parser.inside:
        raise UnusableError(f"{path} ends inside a segment; it is truncated")
    for segment in parser.segments:
        yield re.sub(r"\s+", _without_line_break, segment.strip())


def _without_line_break(space: re.Match[str]) -> str:
    """Returns one space for white space with a line break, and other white space as it is."""
    return " " if "\n" in space[0] or "\r" in space[0] else space[0]


class _SegmentParser(HTMLParser):
    """Collects the text of `<seg>` elements. An XML parser would refuse the files: no root, unescaped ampersands."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.segments: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a segment at `<seg>`."""
        if tag == "seg":
            self.inside = True
            self.segments.append("")

    def handle_endtag(self, tag: str) -> None:
        """Ends a segment at `</seg>`."""
        if tag == "seg":
            self.inside = False

    def handle_data(self, data: str) -> None:
        """Adds text to the open segment, if there is one."""
        if self.inside:
            self.segments[-1] += data
