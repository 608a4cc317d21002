"""Splits texts into shards: blocks of consecutive lines, each with its position in the file and its checksum.

To translate a shard, its lines are read from the file again at its offset. Compressed texts are therefore unpacked
first.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from transduce.corpus.readers import read_byte_lines
from transduce.storage.atomic import atomic_write
from transduce.storage.locks import exclusive_lock
from transduce.storage.regular_files import remove
from transduce.text.compressed import LONGEST_SIGNATURE, compression_of, plain_name
from transduce.text.lines import MAX_LINE_BYTES, decode_lines


class Shard(NamedTuple):
    """A block of `lines` consecutive lines in a file.

    The block starts at the byte `offset`, after the first `lines_before` lines of the file. `sha256` is its checksum.
    """

    path: str
    lines_before: int
    lines: int
    offset: int
    sha256: str

    def read(self) -> list[str]:
        """Reads the lines of the shard. A line with more than `MAX_LINE_BYTES` bytes is truncated.

        Raises ValueError if the file has changed since it was split.
        """
        checksum = hashlib.sha256()
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            content = b"".join(_read_line(file, checksum)[0] for _ in range(self.lines))
        if checksum.hexdigest() != self.sha256:
            raise ValueError(f"{self.path} was changed while it was translated; run the same command again")
        return decode_lines(content, self.path, self.lines_before)


class ShardResult(NamedTuple):
    """The output of a shard, and the lines that could not be translated.

    Each of these lines is listed with its number in the text, counted from 1, and the reason. Its output is empty.
    """

    text: str
    faults: list[tuple[int, str]]


class ShardedText(NamedTuple):
    """A file that is split into shards, and the path for its translation."""

    source: Path
    out: Path
    shards: list[Shard]
    sha256: str

    @property
    def lines(self) -> int:
        """The number of lines in all shards."""
        return sum(shard.lines for shard in self.shards)


def cut_texts(source: Path, out: Path, shard_lines: int) -> list[ShardedText]:
    """Splits a file, or every file in a folder except hidden ones, into shards of `shard_lines` lines.

    The translations of a folder are written to the folder `out`, under the names of the source files. Raises ValueError
    if a file is not text, if a folder has no files or contains other folders, or if `out` is a file or within the
    folder.
    """
    if not source.is_dir():
        return [_cut_text(source, out, shard_lines)]
    paths = [path for path in sorted(source.iterdir()) if not path.name.startswith(".")]
    if not paths:
        raise ValueError(f"{source} is a folder without files; name a text, or a folder of texts")
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path} is not a file; a folder to translate must contain texts only")
    if out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} is in {source}, and would be taken for one of its texts; choose a folder outside")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; the text is a folder, so that --out must be a folder too")
    return [_cut_text(path, out / path.name, shard_lines) for path in paths]


def _cut_text(source: Path, out: Path, shard_lines: int) -> ShardedText:
    """Splits a file into shards of `shard_lines` lines, with only one shard in memory at a time.

    Raises ValueError for a pipe. A pipe can be read only once, but the lines of a shard are read again when it is
    translated.
    """
    if source.exists() and not source.is_file():
        raise ValueError(f"{source} is a folder, a pipe or a device; a corpus is read twice: save it as a file first")
    shards: list[Shard] = []
    text_hash, before, offset = hashlib.sha256(), 0, 0
    with source.open("rb") as file:
        while True:
            lines, size, checksum = list[bytes](), 0, hashlib.sha256()
            while len(lines) < shard_lines:
                line, line_size = _read_line(file, checksum, text_hash)
                if not line_size:
                    break
                lines.append(line)
                size += line_size
            if not lines:
                return ShardedText(source, out, shards, text_hash.hexdigest())
            decode_lines(b"".join(lines), str(source), before)
            shards.append(Shard(str(source.absolute()), before, len(lines), offset, checksum.hexdigest()))
            before, offset = before + len(lines), offset + size


def _read_line(file: BinaryIO, *checksums: "hashlib._Hash") -> tuple[bytes, int]:
    """Reads a line and adds it to the checksums. Returns the line with its line end, and its size in the file.

    If the line has more than `MAX_LINE_BYTES` bytes, only its beginning is returned, because no model translates a line
    that long.
    """
    content = chunk = file.readline(MAX_LINE_BYTES)
    size = 0
    while chunk:
        for checksum in checksums:
            checksum.update(chunk)
        size += len(chunk)
        chunk = b"" if chunk.endswith(b"\n") else file.readline(MAX_LINE_BYTES)
    if size > len(content):  # the last character may be incomplete
        content = content[:-4].decode("utf-8", "ignore").encode() + b"\n"
    return content, size


@contextmanager
def plain_text(path: Path, folder: Path) -> Iterator[Path]:
    """Yields the path of an uncompressed copy of a text, or `path` itself if the text is not compressed.

    The copy is written to `folder`, which is deleted when the context exits. Raises ValueError if the file is damaged
    or if another process is unpacking into `folder`, and OSError if the file cannot be read.
    """
    is_compressed = False
    if path.is_file():
        with path.open("rb") as file:
            is_compressed = compression_of(file.read(LONGEST_SIGNATURE)) is not None
    if not is_compressed:
        yield path
        return

    def unpack(temporary: Path) -> None:
        with temporary.open("wb") as file:
            file.writelines(line + b"\n" for line in read_byte_lines(path))

    with exclusive_lock(folder, "translation"):
        try:
            plain = folder / plain_name(path)
            atomic_write(plain, unpack)
            yield plain
        finally:
            remove(folder)
