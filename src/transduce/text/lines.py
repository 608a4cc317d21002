"""Reads lines of text from a file, standard input or a slow stream.

Text that is markup or is not encoded in UTF-8 raises an error.
"""

import os
import queue
import re
import sys
import threading
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO

from transduce.text.compressed import compression_of, decompressed

MAX_LINE_BYTES = 1 << 26
"""The maximum number of bytes in a line, including its ending.

Without this limit, a file that contains no line feeds would be read as one huge line.
"""

# The byte order marks of other encodings. If one begins with another, the longer one comes first.
_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
MARKLESS_BYTES = 1024  # bytes at the beginning of a file that reveal UTF-16 without a byte order mark

_LINE_END_OF_OLD_MACS = re.compile(rb"(?<=[^\r\n])\r(?=[^\r\n])")  # a lone carriage return within a text

_SGML = re.compile(r"\s*<(seg|refset|srcset|tstset|mteval)\b", re.IGNORECASE)
_DOCUMENT = re.compile(r"\s*<(?:\?xml\s|!doctype\s|(?:xliff|tmx|html)\b)", re.IGNORECASE)


def read_lines(path: str) -> list[str]:
    r"""Reads the lines of the plain or compressed file at `path`, or of standard input if `path` is `-`.

    Only "\n" ends a line. A "\r" before the "\n" is removed, and the last line may lack the "\n". Raises ValueError,
    which names the line, if a line is longer than `MAX_LINE_BYTES`, is not valid UTF-8, or is SGML or XML markup. Also
    raises ValueError if a compressed file is damaged.
    """
    if path == "-":
        name = "standard input"
        return decode_lines(b"".join(raw_lines(standard_input(), name)), name)
    with Path(path).open("rb") as file, decompressed(file, Path(path)) as content:
        return decode_lines(b"".join(raw_lines(content, path)), path)


def read_texts(*paths: str) -> list[list[str]]:
    """Reads several texts with `read_lines`; raises ValueError if more than one of them is standard input."""
    if paths.count("-") > 1:
        raise ValueError("-: standard input can be read once; name a file for the other text")
    return [read_lines(path) for path in paths]


def raw_lines(file: BinaryIO | BufferedIOBase, name: str) -> Iterator[bytes]:
    """Yields the lines of a file as bytes, including their endings.

    Raises ValueError as soon as more than `MAX_LINE_BYTES` bytes of a line have been read; `name` is the name of the
    file in the message.
    """
    for line_number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1):
        check_line_size(len(line), name, line_number)
        yield line


def check_line_size(size: int, name: str, number: int) -> None:
    """Raises ValueError if the size of a line exceeds `MAX_LINE_BYTES`.

    The message contains the name of the file and the number of the line.
    """
    if size > MAX_LINE_BYTES:
        raise ValueError(
            f"{name}: line {number} is longer than {MAX_LINE_BYTES:,} bytes; a text has one sentence a line: split it"
        )


def decode_lines(content: bytes, name: str, lines_before: int = 0) -> list[str]:
    """Decodes whole lines of a file; `lines_before` is the number of lines that precede `content` in the file.

    Raises ValueError if a line is not valid UTF-8 or is markup, or if the file is not plain text; `name` is the name of
    the file in the message.
    """
    if not lines_before:
        refuse_other_forms(content, name)
        content = content.removeprefix(BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line_number = lines_before + content.count(b"\n", 0, error.start) + 1
        remedy = "convert the file to UTF-8; `iconv -f ISO-8859-1 -t UTF-8` does so if it is Latin-1"
        raise ValueError(f"{name}: line {line_number} is not UTF-8; {remedy}") from None
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    refuse_markup(lines, name, lines_before)
    return lines


OTHER_FORMATS = {
    b"%PDF": "a PDF",
    b"{\\rtf": "a file of RTF",
    b"\xd0\xcf\x11\xe0": "a file of an old Office",
    b"PK\x03\x04": "an archive, such as of OpenDocument or DOCX",
}
"""Maps the first bytes of files that are not plain text to a description of their format."""


def refuse_other_forms(beginning: bytes, name: str) -> None:
    """Raises ValueError if the beginning of a file shows that the file is not UTF-8 text.

    Also raises ValueError if the lines end with carriage returns instead of line feeds.
    """
    if kind := compression_of(beginning):
        raise ValueError(f"{name} is compressed with {kind}: unpack it")
    for mark, encoding in _MARKS.items():
        if beginning.startswith(mark):
            raise ValueError(f"{name} is {encoding}; convert it with `iconv -f {encoding} -t UTF-8`")
    for signature, kind in OTHER_FORMATS.items():
        if beginning.startswith(signature):
            raise ValueError(f"{name} is {kind}: save it as text; `transduce translate-document` reads DOCX and HTML")
    # In UTF-16, every second byte of most texts is zero.
    zeros = [beginning[parity:MARKLESS_BYTES:2].count(0) for parity in (0, 1)]
    if 2 * max(zeros) > len(beginning[0:MARKLESS_BYTES:2]) > 1 and max(zeros) > 2 * min(zeros):
        encoding = "UTF-16BE" if zeros[0] > zeros[1] else "UTF-16LE"
        raise ValueError(f"{name} is UTF-16 without a mark; convert it with `iconv -f {encoding} -t UTF-8`")
    if len(_LINE_END_OF_OLD_MACS.findall(beginning)) > beginning.count(b"\n"):
        raise ValueError(f"{name} has carriage returns in the place of line feeds; convert it with `tr '\\r' '\\n'`")


def standard_input() -> BinaryIO:
    """Returns standard input as a binary stream; raises OSError if it is closed."""
    if sys.stdin is None:
        raise OSError("standard input is closed; name a file, or write the text into a pipe")
    return sys.stdin.buffer


def refuse_markup(lines: Sequence[str], name: str, lines_before: int = 0) -> None:
    """Raises ValueError if the lines contain markup, because its tags would be translated as words.

    A line is taken for markup if it begins with a tag of WMT's `.sgm` and `.xml` files, or if it is the first line of
    the file and begins an XML or HTML document.
    """
    if not lines_before and lines and _DOCUMENT.match(lines[0]):
        raise ValueError(
            f"{name}: line 1 is markup, not text: {lines[0].strip()[:60]!r}; take the segments out of it first, one a "
            "line, or translate the document with `transduce translate-document`"
        )
    for line_number, line in enumerate(lines, start=lines_before + 1):
        if _SGML.match(line):
            raise ValueError(
                f"{name}: line {line_number} is markup, not text: {line.strip()[:60]!r}; "
                "take the segments out of it first, one a line (`sacrebleu --echo` does it for WMT's tests)"
            )


CHUNK_BYTES = 1 << 16
WAITING_CHUNKS = 256  # maximum number of chunks that are read ahead


class LineStream:
    """Reads lines from a file descriptor in a background thread.

    Iterating over the stream yields lists of the complete lines that have been read so far, with at most `limit` lines
    in each list. `prompt` is called whenever the stream has to wait for input. Iterating raises ValueError if a line is
    too long, is not valid UTF-8 or is markup; `name` is the name of the file in the message.

    The thread is a daemon, and it reads the descriptor without a buffered reader. Neither the thread nor the lock of a
    buffered reader can therefore keep the process alive at exit.
    """

    def __init__(self, descriptor: int, name: str, limit: int, prompt: Callable[[], None] = lambda: None) -> None:
        self.descriptor, self.name, self.limit, self.prompt = descriptor, name, limit, prompt
        self._chunks: queue.Queue[bytes | OSError] = queue.Queue(WAITING_CHUNKS)
        threading.Thread(target=self._read_chunks, daemon=True).start()

    def __iter__(self) -> Iterator[list[str]]:
        """Yields non-empty lists of lines until the end of the input."""
        lines_before, lines = 0, list[bytes]()
        unfinished = bytearray()  # the beginning of a line whose end has not been read yet
        has_ended = False
        while not has_ended or lines:
            while not has_ended and len(lines) < self.limit and not (lines and self._chunks.empty()):
                chunk = self._next_chunk()
                has_ended = not chunk
                line_size = len(unfinished) + (chunk.find(b"\n") + 1 or len(chunk))
                check_line_size(line_size, self.name, lines_before + len(lines) + 1)
                unfinished += chunk
                if b"\n" in chunk or has_ended:
                    *complete, rest = bytes(unfinished).split(b"\n")
                    lines += [line + b"\n" for line in complete]
                    unfinished = bytearray(rest)
                    if has_ended and rest:
                        lines.append(rest)
            window, lines = lines[: self.limit], lines[self.limit :]
            if decoded := decode_lines(b"".join(window), self.name, lines_before):
                yield decoded
            lines_before += len(window)

    def _next_chunk(self) -> bytes:
        """Waits for the next chunk of input and returns it; the chunk is empty at the end of the input.

        If reading has failed, raises the OSError that it raised.
        """
        if self._chunks.empty():
            self.prompt()
        chunk = self._chunks.get()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def _read_chunks(self) -> None:
        """Reads chunks into the queue until the input ends or reading fails."""
        try:
            while chunk := os.read(self.descriptor, CHUNK_BYTES):
                self._chunks.put(chunk)
            self._chunks.put(b"")
        except OSError as error:
            self._chunks.put(error)
