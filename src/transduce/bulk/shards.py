"""Cuts texts into shards: consecutive lines of a file, with their position and their checksum.

A shard is read again by its offset when it is translated, so a compressed text is unpacked first.
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
    """Consecutive lines of a file: `lines` of them after `lines_before`, beginning at the byte `offset`."""

    path: str
    lines_before: int
    lines: int
    offset: int
    sha256: str

    def read(self) -> list[str]:
        """Reads the lines; of a line with more than `MAX_LINE_BYTES`, only the beginning.

        Raises ValueError if the file was changed after it was cut.
        """
        checksum = hashlib.sha256()
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            content = b"".join(_read_line(file, checksum)[0] for _ in range(self.lines))
        if checksum.hexdigest() != self.sha256:
            raise ValueError(f"{self.path} was changed while it was translated; run the same command again")
        return decode_lines(content, self.path, self.lines_before)


class ShardResult(NamedTuple):
    """The output of a shard, and the lines that could not be translated: number in the text (from 1) and reason.

    The output of a line that could not be translated is empty.
    """

    text: str
    faults: list[tuple[int, str]]


class ShardedText(NamedTuple):
    """A file cut into shards, and the path of its translation."""

    source: Path
    out: Path
    shards: list[Shard]
    sha256: str

    @property
    def lines(self) -> int:
        """Number of lines in all shards."""
        return sum(shard.lines for shard in self.shards)


def cut_texts(source: Path, out: Path, shard_lines: int) -> list[ShardedText]:
    """Splits a file, or each file of a folder except hidden files, into shards of `shard_lines` lines.

    The translations of a folder are written to `out` under the names of its files. Raises ValueError for a file that is
    not text, and if one of source and output is a file but the other is a folder.
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

    Raises ValueError for a pipe: a shard is read from the file again when it is translated, and a pipe can be read only
    once.
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
    """Reads a line with its line end, and adds it to the checksums; returns the line and its size in the file.

    Of a very long line, only the first `MAX_LINE_BYTES` are returned, because no model translates a line that long.
    """
    content = chunk = file.readline(MAX_LINE_BYTES)
    size = 0
    while chunk:
        for checksum in checksums:
            checksum.update(chunk)
        size += len(chunk)
        chunk = b"" if chunk.endswith(b"\n") else file.readline(MAX_LINE_BYTES)
    if size > len(content):  # the last character may be cut
        content = content[:-4].decode("utf-8", "ignore").encode() + b"\n"
    return content, size


@contextmanager
def plain_text(path: Path, folder: Path) -> Iterator[Path]:
    """Yields `path`; if it is compressed, an unpacked file in `folder`, which is removed at the end.

    Raises ValueError for a damaged file, and if another process unpacks into `folder`. Raises OSError for a file that
    cannot be read.
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
