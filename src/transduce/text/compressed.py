"""Text files that are compressed with gzip or xz, which are read like plain ones."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any

READ = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz"}
"""First bytes of compressed files that can be read."""

REFUSED = {
    b"BZh91AY&SY": "compressed with bzip2; unpack it with `bunzip2`",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it with `unzstd`",
    b"PK\x03\x04": "a ZIP archive, or a document such as ODT or DOCX; unpack it with `unzip`, or save it as text",
}
"""First bytes of files that cannot be read, and what to do with them."""

LONGEST_SIGNATURE = max(map(len, (*READ, *REFUSED)))
"""Number of bytes at the beginning of a file that show its compression."""


class UnreadCompressionError(ValueError):
    """A file has a compression that cannot be read."""


def compression_of(beginning: bytes) -> str | None:
    """The compression of a file with this beginning, gzip or xz; None if it is not compressed."""
    return next((name for signature, name in READ.items() if beginning.startswith(signature)), None)


def plain_name(path: Path) -> str:
    """Name of a file after unpacking, without `.gz` or `.xz`."""
    return path.stem if path.suffix.lower() in (".gz", ".xz") else path.name


@contextmanager
def decompressed(file: BufferedReader, path: Path) -> Iterator[BufferedIOBase]:
    """Yields the content of a plain, gzipped or xz-compressed file, recognised by its first bytes, not by its name.

    Raises UnreadCompressionError, which names `path`, for other compressions, and ValueError when damaged data is read.
    Data after the last whole stream of an xz file is ignored, as the library does.
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
    """Returns the content of a gzipped file, and the errors that damage raises while it is read."""
    return gzip.open(file), (EOFError, gzip.BadGzipFile, zlib.error)


def _open_xz(file: BufferedReader, path: Path) -> tuple[Any, tuple[type[Exception], ...]]:
    """Like `_open_gzip` for an xz file; raises UnreadCompressionError if Python lacks lzma."""
    try:
        import lzma  # imported here, because a Python without lzma can read everything else
    except ImportError:
        fault = "is compressed with xz, which this Python cannot read; unpack it with `unxz`"
        raise UnreadCompressionError(f"{path} {fault}") from None
    return lzma.open(file), (EOFError, lzma.LZMAError)


def _refuse_others(beginning: bytes, path: Path) -> None:
    """Raises UnreadCompressionError if a file with this beginning has a compression that cannot be read."""
    for signature, description in REFUSED.items():
        if beginning.startswith(signature):
            raise UnreadCompressionError(f"{path} is {description}")
