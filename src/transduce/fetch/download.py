"""Downloads an archive from the first mirror that delivers it intact. An interrupted download is resumed."""

import gzip
import hashlib
import logging
import os
import sys
import zlib
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from io import BufferedRandom
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import transduce
from transduce.fetch.catalogue import Archive
from transduce.runtime.progress import ProgressRate, is_terminal
from transduce.storage.atomic import flush_to_disk
from transduce.storage.locks import exclusive_lock
from transduce.storage.operating_system import replace

_log = logging.getLogger("transduce")

UNITS = ("bytes", "kB", "MB", "GB", "TB")
OFTEN, SELDOM = 0.2, 30.0  # seconds between two progress reports, on a terminal and elsewhere


class Meter:
    """Counts the bytes of a download, and reports the progress.

    On a terminal, the report is updated in place; elsewhere, a line is logged from time to time. `total` is the size of
    the file, or None if it is unknown. `done` is the number of bytes that were downloaded before.
    """

    def __init__(self, total: int | None, done: int) -> None:
        self.pace = ProgressRate(total, done)
        self._on_terminal = is_terminal(sys.stderr)

    def add(self, count: int) -> None:
        """Adds `count` bytes, and reports the progress if a report is due."""
        self.pace.done += count
        if not self.pace.is_report_due(OFTEN if self._on_terminal else SELDOM):
            return
        if self._on_terminal:
            print(f"\r\x1b[K  {self}", end="", file=sys.__stderr__, flush=True)
        else:
            _log.info(f"  {self}")

    def __str__(self) -> str:
        pace = self.pace
        done = f"{pace.done / pace.total:.0%} of {format_bytes(pace.total)}" if pace.total else format_bytes(pace.done)
        return f"{done}, {format_bytes(pace.rate)} a second{pace.time_left}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._on_terminal:
            print("\r\x1b[K", end="", file=sys.__stderr__, flush=True)
        if kind is None:
            _log.info(f"  {self}")


def format_bytes(size: float) -> str:
    """Formats a number of bytes in powers of 1,000, for example `80.4 MB`."""
    for unit in UNITS[:-1]:
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == UNITS[0] or size >= 99.95 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {UNITS[-1]}"


TIMEOUT = 60.0  # seconds without any data after which a mirror has failed
CHUNK = 1 << 20  # bytes
AGENT = f"transduce/{transduce.__version__}"


class Unavailable(RuntimeError):  # noqa: N818 - the user sees no class name, and `except Unavailable` reads better
    """Raised when a text or an archive cannot be downloaded. The message names every origin, with the reason."""


class _MirrorError(Exception):
    """Raised when a mirror does not deliver the archive. The message gives the reason."""


def download(name: str, archive: Archive, folder: Path) -> Path:
    """Returns the path of an archive in `folder`. If it is missing or damaged, downloads it from its mirrors in turn.

    The download is written to a `.part` file in the same folder, which is renamed when the size and the checksum are
    correct. Raises Unavailable if every mirror fails. In this case, the `.part` file is kept, and the next call resumes
    the download.
    """
    path = folder / name
    part = path.with_name(f"{path.name}.part")
    with exclusive_lock(path.parent, "fetch"):
        if path.exists() and (fault := find_fault(path, archive)) is None:
            return path
        if path.exists():
            _log.info(f"{path} {fault}; it is downloaded again")
        if part.is_symlink():
            part.unlink()  # otherwise the download would overwrite the file to which the link points
        reasons = []
        for mirror in archive.mirrors:
            _log.info(f"{name} from {mirror}")
            try:
                _download_from(mirror, archive, part)
            except _MirrorError as error:
                _log.info(f"  {error}")
                reasons.append(f"{mirror}: {error}")
            else:
                replace(part, path)
                flush_to_disk(path.parent)
                return path
    raise Unavailable("\n  ".join([f"every mirror of {name} failed:", *reasons]))


def find_fault(path: Path, archive: Archive) -> str | None:
    """Returns None if a file is the expected archive, and otherwise a phrase for an error message about the file."""
    size = path.stat().st_size
    if archive.bytes is not None and size != archive.bytes:
        return f"has {size:,} bytes where {archive.bytes:,} are expected"
    if archive.checksum is not None:
        kind, _, expected = archive.checksum.partition(":")
        with path.open("rb") as file:
            checksum = hashlib.file_digest(file, kind).hexdigest()
        return None if checksum == expected else f"has the {kind} {checksum} where {expected} is expected"
    try:
        with gzip.open(path) as gzipped:  # reading to the end verifies the checksum that the file contains
            while gzipped.read(CHUNK):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        return f"is not a complete gzip file ({error})"
    return None


def _download_from(mirror: str, archive: Archive, part: Path) -> None:
    """Downloads the rest of `part` from a mirror.

    If a request fails but has delivered new bytes, the bytes that are still missing are requested again. Raises
    _MirrorError if the mirror does not deliver the archive.
    """
    with part.open("r+b" if part.exists() else "w+b") as file:
        # Without a checksum, a download is not resumed, because nothing would detect that two different files had been
        # joined.
        if archive.checksum is None or (archive.bytes is not None and file.seek(0, 2) > archive.bytes):
            file.truncate(0)
        while file.seek(0, 2) == 0 or find_fault(part, archive):
            size_before = file.tell()
            try:
                _request(mirror, archive, file)
                break
            except _MirrorError as error:
                if archive.checksum is None or file.seek(0, 2) <= size_before:
                    raise
                _log.info(f"  {error}; requesting the rest")
        if fault := find_fault(part, archive):
            file.truncate(0)
            raise _MirrorError(f"the downloaded file {fault}")
        if not os.path.samestat(os.fstat(file.fileno()), part.lstat()):
            raise OSError(f"{part} was replaced by another program while it was downloaded; run the command again")
        flush_to_disk(part)


def _request(mirror: str, archive: Archive, file: BufferedRandom) -> None:
    """Requests the missing bytes of `file` and appends them. Starts over if the server does not support ranges."""
    start = file.seek(0, 2)
    with _open(mirror, start) as response:
        begin = start if response.status == 206 else 0
        if begin and not (response.headers["Content-Range"] or "").startswith(f"bytes {begin}-"):
            raise _MirrorError("the server sent another range than requested")
        length = response.headers["Content-Length"]
        total = begin + int(length) if length and length.isdigit() else archive.bytes
        if archive.bytes is not None and total != archive.bytes:
            raise _MirrorError(f"the server's file has {total:,} bytes where {archive.bytes:,} are expected")
        if start and not begin:
            _log.info("  the server cannot resume a download; starting over")
            file.truncate(0)
            file.seek(0)
        with Meter(total, begin) as meter:
            for chunk in _chunks(response):
                if total is not None and meter.pace.done + len(chunk) > total:
                    file.truncate(begin)  # most likely, the server sends a different file
                    raise _MirrorError(f"the server sends more than the {total:,} bytes that are expected")
                file.write(chunk)
                file.flush()  # so that the bytes are not lost if the process is killed
                meter.add(len(chunk))
            if total is not None and meter.pace.done != total:
                raise _MirrorError(f"the connection broke off after {meter.pace.done:,} of {total:,} bytes")


def _open(mirror: str, start: int) -> HTTPResponse:
    """Requests all bytes from the offset `start` on; raises _MirrorError if the request fails."""
    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = urlopen(Request(mirror, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:  # the server has no more bytes, so the bytes in the file must be wrong
            return _open(mirror, 0)
        raise _MirrorError(f"HTTP {error.code} {error.reason}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:  # ValueError: a redirection to an invalid address
        raise _MirrorError(_reason(error)) from None
    return response


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    """Yields the body of a response in chunks.

    Raises _MirrorError for network errors, so that they can be distinguished from disk errors of the caller.
    """
    while True:
        try:
            chunk = response.read1(CHUNK)
        except (HTTPException, OSError) as error:
            raise _MirrorError(f"the connection broke off: {_reason(error)}") from None
        if not chunk:
            return
        yield chunk


def _reason(error: Exception) -> str:
    """Describes a network error in a few words."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer for {TIMEOUT:g} seconds"
    return (isinstance(cause, OSError) and cause.strerror) or str(cause) or type(cause).__name__
