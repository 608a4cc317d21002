"""Texts out of archives: a stream is read once, and what is looked for is copied to where we say."""

import gzip
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import IO

__all__ = ["UnusableError", "plain", "segments", "unpack"]

CHUNK = 1 << 20


class UnusableError(ValueError):
    """An archive or a text that is there, and is not what it should be."""


def unpack(archive: Path, members: Mapping[str, Path]) -> None:
    """Copies members of a tar archive, plain or compressed, to the files that are given for each.

    No name of the archive becomes a path, so that nothing is written elsewhere whatever the names are. An
    `UnusableError` where a member is missing or no file, or the archive damaged.
    """
    wanted = dict(members)
    try:
        with tarfile.open(archive, "r|*") as stream:
            for entry in stream:
                destination = wanted.pop(str(PurePosixPath(entry.name)), None)
                if destination is not None:
                    _copy(stream, entry, archive, destination)
                if not wanted:
                    return
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnusableError(f"{archive} is a damaged archive ({error}); delete it and run the command again") from None
    raise UnusableError(f"{archive} has no {', '.join(sorted(wanted))}: it is another archive than the one expected")


def _copy(stream: tarfile.TarFile, entry: tarfile.TarInfo, archive: Path, destination: Path) -> None:
    """Copies one member, which has to be a file: a link would lead to what the archive's author chose."""
    content: IO[bytes] | None = stream.extractfile(entry) if entry.isreg() else None
    if content is None:
        raise UnusableError(
            f"{archive}: {entry.name} is no file but a link or a folder; the archive is not to be trusted"
        )
    with destination.open("wb") as file:
        shutil.copyfileobj(content, file, CHUNK)


def plain(path: Path, aside: Path) -> Path:
    """The text of a file, a sentence a line: `path` itself, or, of an .sgm file, its segments, written to `aside`."""
    if path.suffix != ".sgm":
        return path
    aside.write_text("".join(f"{segment}\n" for segment in segments(path)), "utf-8", newline="\n")
    return aside


def segments(path: Path) -> Iterator[str]:
    """The segments of a WMT test in SGML, in order, with entities undone; a line break inside one is a space."""
    reader = _Segments()
    try:
        reader.feed(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise UnusableError(f"{path} is no UTF-8 ({error.reason} at byte {error.start:,})") from None
    reader.close()
    if reader.inside:
        raise UnusableError(f"{path} ends inside of a segment: it is cut short")
    for segment in reader.found:
        yield re.sub(r"\s*[\r\n]\s*", " ", segment.strip())


class _Segments(HTMLParser):
    """Collects what stands in `<seg>`. The files are SGML: no root, ampersands and tags that XML would refuse."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A segment begins, if it is one."""
        if tag == "seg":
            self.inside = True
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        """A segment ends, if it is one."""
        if tag == "seg":
            self.inside = False

    def handle_data(self, data: str) -> None:
        """Text, which counts inside of a segment only."""
        if self.inside:
            self.found[-1] += data
