"""One archive from the first of its mirrors that gives it whole; a download that was cut short goes on."""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from io import BufferedRandom
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import transduce
from transduce.fetch.catalogue import Archive
from transduce.fetch.meter import Meter
from transduce.storage.atomic import flush_to_disk
from transduce.storage.locks import exclusive_lock

__all__ = ["Unavailable", "download", "fault"]

TIMEOUT = 60.0  # seconds without a byte after which a mirror counts as dead
CHUNK = 1 << 20
AGENT = f"transduce/{transduce.__version__}"


class Unavailable(RuntimeError):  # noqa: N818 - it reads as what it says
    """Something could not be had; the message says from where, and why."""


class _FailedError(Exception):
    """A mirror does not give what is asked; the message says why."""


def download(name: str, archive: Archive, folder: Path, say: Callable[[str], None]) -> Path:
    """The archive in `folder`, from there if it is there whole, else from its mirrors in turn.

    What is downloaded stands in a file beside it, `.part`, until its size and checksum are right. `Unavailable` where
    every mirror fails, with each and its reason; what came of the archive stays for the next time.
    """
    path = folder / name
    with exclusive_lock(path.parent, "fetch"):
        if path.exists() and (found := fault(path, archive)) is None:
            return path
        if path.exists():
            say(f"{path} {found}; it is downloaded again")
        reasons = []
        for mirror in archive.mirrors:
            say(f"{name} from {mirror}")
            try:
                _fill(path.with_name(f"{path.name}.part"), archive, mirror, say)
            except _FailedError as error:
                say(f"  {error}")
                reasons.append(f"{mirror}: {error}")
            else:
                path.with_name(f"{path.name}.part").replace(path)
                flush_to_disk(path.parent)
                return path
    raise Unavailable("\n  ".join([f"no mirror gives {name}:", *reasons]))


def fault(path: Path, archive: Archive) -> str | None:
    """What is wrong with a file that should be the archive, as the end of a sentence; None where it is whole."""
    size = path.stat().st_size
    if archive.bytes is not None and size != archive.bytes:
        return f"has {size:,} bytes where {archive.bytes:,} are expected"
    if archive.checksum is None:
        return _fault_of_gzip(path)
    kind, _, expected = archive.checksum.partition(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    return None if found == expected else f"has the {kind} {found} where {expected} is expected"


def _fault_of_gzip(path: Path) -> str | None:
    """A gzip file ends with a checksum of its own, which is looked at when all of it is read."""
    try:
        with gzip.open(path) as file:
            while file.read(CHUNK):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        return f"is no whole gzip file ({error})"
    return None


def _fill(part: Path, archive: Archive, mirror: str, say: Callable[[str], None]) -> None:
    """Fills `part` from one mirror, which is asked again for the rest as long as it gives some of it."""
    with part.open("r+b" if part.exists() else "w+b") as file:
        # What no checksum would tell apart must not be pieced together from two downloads.
        if archive.checksum is None or (archive.bytes is not None and file.seek(0, 2) > archive.bytes):
            file.truncate(0)
        while file.seek(0, 2) == 0 or fault(part, archive):
            before = file.tell()
            try:
                _request(mirror, archive, file, say)
                break
            except _FailedError as error:
                if archive.checksum is None or file.seek(0, 2) <= before:
                    raise
                say(f"  {error}; asked for the rest")
        if found := fault(part, archive):
            file.truncate(0)
            raise _FailedError(f"what it gives {found}")
        flush_to_disk(part)


def _request(mirror: str, archive: Archive, file: BufferedRandom, say: Callable[[str], None]) -> None:
    """Asks for what `file` has not yet, and appends it; from the start where the mirror cannot go on in the middle."""
    start = file.seek(0, 2)
    with _opened(mirror, start) as response:
        begin = start if response.status == 206 else 0
        if begin and not (response.headers["Content-Range"] or "").startswith(f"bytes {begin}-"):
            raise _FailedError("it gives another range than was asked for")
        length = response.headers["Content-Length"]
        total = begin + int(length) if length and length.isdigit() else archive.bytes
        if archive.bytes is not None and total != archive.bytes:
            raise _FailedError(f"it has {total:,} bytes there where {archive.bytes:,} are expected")
        if start and not begin:
            say("  it cannot go on in the middle: from the start")
            file.truncate(0)
            file.seek(0)
        with Meter(total, begin, say) as meter:
            for piece in _pieces(response):
                file.write(piece)
                file.flush()  # what has come outlives us
                meter.add(len(piece))
            if total is not None and meter.pace.done != total:
                raise _FailedError(f"it broke off after {meter.pace.done:,} of {total:,} bytes")


def _opened(mirror: str, start: int) -> HTTPResponse:
    """The answer to a request for all from byte `start` on."""
    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response: HTTPResponse = urlopen(Request(mirror, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416 and start:  # nothing follows what is here, and that is not whole: it is of no use
            return _opened(mirror, 0)
        raise _FailedError(f"HTTP {error.code} {error.reason}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:  # a redirection may lead to what is no address
        raise _FailedError(_reason(error)) from None
    return response


def _pieces(response: HTTPResponse) -> Iterator[bytes]:
    """The body, piece by piece; only errors of the network become the mirror's, those of the disk do not."""
    while True:
        try:
            piece = response.read1(CHUNK)
        except (HTTPException, OSError) as error:
            raise _FailedError(f"it broke off: {_reason(error)}") from None
        if not piece:
            return
        yield piece


def _reason(error: Exception) -> str:
    """An error of the network in few words."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return (isinstance(cause, OSError) and cause.strerror) or str(cause) or type(cause).__name__
