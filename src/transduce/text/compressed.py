"""Reads text files that are compressed with gzip or xz as if they were plain text."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any

READ = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz"}
"""Maps the first bytes of the compressed files that can be read to the name of the compression."""

REFUSED = {
    b"BZh91AY&SY": "compressed with bzip2; unpack it with `bunzip2`",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it with `unzstd`",
    b"PK\x03\x04": "a ZIP archive, or a document such as ODT or DOCX: save the document as DOCX for "
    "`transduce translate-document`, or as text; unpack an archive with `unzip`",
}
"""Maps the first bytes of unsupported files to a description that tells the user what to do."""

LONGEST_SIGNATURE = max(map(len, (*READ, *REFUSED)))
"""The number of bytes at the beginning of a file that are needed to recognise its compression."""


class UnreadCompressionError(ValueError):
    """Raised if a file has a compression that cannot be read."""


def compression_of(beginning: bytes) -> str | None:
    """Returns the compression of a file that begins with `beginning`, "gzip" or "xz", or None for any other file."""
    return next((name for signature, name in READ.items() if beginning.startswith(signature)), None)


def plain_name(path: Path) -> str:
    """Returns the name that a file has after decompression, without `.gz` or `.xz`."""
    return path.stem if path.suffix.lower() in (".gz", ".xz") else path.name


@contextmanager
def decompressed(file: BufferedReader, path: Path) -> Iterator[BufferedIOBase]:
    """Returns a context manager for the content of a file that is plain or is compressed with gzip or xz.

    The compression is recognised by the first bytes of the file, not by its name. Raises UnreadCompressionError, which
    names `path`, for any other compression, and ValueError when damaged data is read. Data after the last complete
    stream of an xz file is ignored, because the `lzma` library ignores it.
    """
    kind = compression_of(file.peek(LONGEST_SIGNATURE))
    if kind is None:
        _refuse_others(file.peek(LONGEST_SIGNATURE), path)
        yield file
        return
    opened, damage = _open_gzip(file) if kind == "gzip" else _open_xz(file, path)
    try:
        with opened as content:
            _refuse_others(content.peek(LONGEST_SIGNATURE), path)
            yield content
    except damage as error:
        raise ValueError(f"{path} is a damaged {kind} file ({error}); fetch or make it again") from None


def _open_gzip(file: BufferedReader) -> tuple[Any, tuple[type[Exception], ...]]:
    """Opens a gzip file and returns it with the exceptions that are raised when damaged data is read from it."""
    return gzip.open(file), (EOFError, gzip.BadGzipFile, zlib.error)


def _open_xz(file: BufferedReader, path: Path) -> tuple[Any, tuple[type[Exception], ...]]:
    """Opens an xz file as `_open_gzip` does; raises UnreadCompressionError if Python was built without lzma."""
    try:
        import lzma  # imported here, because a Python without lzma can still read all other files
    except ImportError:
        fault = "is compressed with xz, which this Python cannot read; unpack it with `unxz`"
        raise UnreadCompressionError(f"{path} {fault}") from None
    return lzma.open(file), (EOFError, lzma.LZMAError)


def _refuse_others(beginning: bytes, path: Path) -> None:
    """Raises UnreadCompressionError if a file with this beginning has a compression that cannot be read."""
    for signature, description in REFUSED.items():
        if beginning.startswith(signature):
            raise UnreadCompressionError(f"{path} is {description}")
