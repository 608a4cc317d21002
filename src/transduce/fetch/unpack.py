"""Extracts texts: members of tar archives, segments of SGML files."""

import gzip
import html
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

CHUNK = 1 << 20  # bytes

# An XML parser would refuse these files: no root, unescaped ampersands.
_SEGMENT_BEGIN = re.compile(r"<seg\b[^>]*>", re.IGNORECASE)
_SEGMENT = re.compile(rf"{_SEGMENT_BEGIN.pattern}(.*?)</seg\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^>]*>")


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
