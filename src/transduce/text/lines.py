"""Reads lines of text from a file or standard input; raises an error for markup and other encodings."""

import re
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO

from transduce.text.compressed import compression_of, decompressed

MAX_LINE_BYTES = 1 << 26
"""Bytes of a line that is read, at most, line end included. A file without line feeds would be one line."""

_SGML = re.compile(r"\s*<(seg|refset|srcset|tstset|mteval)\b", re.IGNORECASE)
_DOCUMENT = re.compile(r"\s*<(?:\?xml\s|!doctype\s|(?:xliff|tmx|html)\b)", re.IGNORECASE)


def read_lines(path: str) -> list[str]:
    r"""Reads the lines of the plain or compressed file at `path`, or of standard input where `path` is `-`.

    A line ends at "\n" and nowhere else; a "\r" before it is dropped, and the last "\n" may be missing.
    Raises ValueError, which names the line, where a line is longer than `MAX_LINE_BYTES`, is not UTF-8, or is SGML or
    XML markup, and for a damaged compressed file.
    """
    if path == "-":
        return _read_lines(standard_input(), "standard input")
    with Path(path).open("rb") as file, decompressed(file, Path(path)) as content:
        return _read_lines(content, path)


def _read_lines(file: BinaryIO | BufferedIOBase, name: str) -> list[str]:
    return decode_lines(b"".join(raw_lines(file, name)), name)


def read_texts(*paths: str) -> list[list[str]]:
    """Reads several texts with `read_lines`. Raises ValueError where two of them are standard input."""
    if paths.count("-") > 1:
        raise ValueError("-: standard input can be read once; name a file for the other text")
    return [read_lines(path) for path in paths]


def raw_lines(file: BinaryIO | BufferedIOBase, name: str) -> Iterator[bytes]:
    """Yields the lines of a file undecoded, with their ends; reads no more than `MAX_LINE_BYTES` and 1 byte of a line.

    Raises ValueError for a longer line; `name` is the file in its message.
    """
    for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
        check_line_size(len(line), name, number)
        yield line


def check_line_size(size: int, name: str, number: int) -> None:
    """Raises ValueError where a line has more than `MAX_LINE_BYTES` bytes; file `name` and line `number` locate it."""
    if size > MAX_LINE_BYTES:
        raise ValueError(
            f"{name}: line {number} is longer than {MAX_LINE_BYTES:,} bytes; a text has one sentence a line: split it"
        )


def decode_lines(content: bytes, name: str, lines_before: int = 0) -> list[str]:
    """Decodes whole lines of a file; `lines_before` counts the lines of the file before `content`.

    Raises ValueError where a line is not UTF-8, or is markup; `name` is the file in its message.
    """
    text = _decode(content, name, lines_before)
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    refuse_markup(lines, name, lines_before)
    return lines


def standard_input() -> BinaryIO:
    """Returns standard input. Raises OSError where it is closed."""
    if sys.stdin is None:
        raise OSError("standard input is closed; name a file, or write the text into a pipe")
    return sys.stdin.buffer


def _decode(content: bytes, name: str, lines_before: int) -> str:
    """Decodes UTF-8, without the byte order mark that a file may begin with."""
    if not lines_before:
        content = content.removeprefix(BOM_UTF8)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        number = lines_before + content.count(b"\n", 0, error.start) + 1
        kind = None if lines_before else compression_of(content)
        remedy = f"it is compressed with {kind}: unpack it" if kind else "convert the file to UTF-8"
        raise ValueError(f"{name}: line {number} is not UTF-8; {remedy}") from None


def refuse_markup(lines: Sequence[str], name: str, lines_before: int = 0) -> None:
    """Raises ValueError for markup, whose tags would be translated as words.

    That is a line of WMT's `.sgm` and `.xml` files, and a first line that begins XML or HTML.
    """
    if not lines_before and lines and _DOCUMENT.match(lines[0]):
        raise ValueError(
            f"{name}: line 1 is markup, not text: {lines[0].strip()[:60]!r}; take the segments out of it first, one a "
            "line, or translate the document with `transduce translate-document`"
        )
    for number, line in enumerate(lines, start=lines_before + 1):
        if _SGML.match(line):
            raise ValueError(
                f"{name}: line {number} is markup, not text: {line.strip()[:60]!r}; "
                "take the segments out of it first, one a line (`sacrebleu --echo` does it for WMT's tests)"
            )
