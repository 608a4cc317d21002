"""Texts cut into shards: consecutive lines of a file, with their position and their checksum.

A shard is read again by its offsets when it is translated, so a compressed text is unpacked first.
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


class LineSpan(NamedTuple):
    """Consecutive lines of a file: `lines` of them after `lines_before`, `size` bytes from `offset` on."""

    path: str
    lines_before: int
    lines: int
    offset: int
    size: int
    sha256: str

    def read(self) -> list[str]:
        """Reads the lines, of a line of more than `MAX_LINE_BYTES` the beginning.

        Raises ValueError where the file was changed after it was cut.
        """
        checksum = hashlib.sha256()
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            content = b"".join(_read_line(file, checksum)[0] for _ in range(self.lines))
        if checksum.hexdigest() != self.sha256:
            raise ValueError(f"{self.path} was changed while it was translated; run the same command again")
        return decode_lines(content, self.path, self.lines_before)


class Shard(NamedTuple):
    """Lines of a text, and the prefixes of their translations."""

    source: LineSpan
    prefix: LineSpan | None = None


class ShardedText(NamedTuple):
    """A file cut into shards, and the path of its translation."""

    source: Path
    out: Path
    shards: list[Shard]
    checksums: dict[str, str | None]  # of the text and of its prefixes

    @property
    def lines(self) -> int:
        """The number of lines."""
        return sum(shard.source.lines for shard in self.shards)


def cut_texts(source: Path, out: Path, prefix: Path | None, shard_lines: int) -> list[ShardedText]:
    """Cuts a file, or each file of a folder except hidden files, into shards of `shard_lines` lines.

    The translations of a folder have the names of its files, in `out`. Raises ValueError for a file that is no text,
    and where source, output and prefixes are not all files or all folders.
    """
    if not source.is_dir():
        return [_cut_text(source, out, prefix, shard_lines)]
    paths = [path for path in sorted(source.iterdir()) if not path.name.startswith(".")]
    if not paths:
        raise ValueError(f"{source} is a folder without files; name a text, or a folder of texts")
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path} is no file; a folder to translate must contain texts only")
    if out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} is in {source}, and would be taken for one of its texts; choose a folder outside")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; the text is a folder, so that --out must be a folder too")
    if prefix is not None and not prefix.is_dir():
        raise ValueError(f"{prefix} is a file; the text is a folder, so that --prefix must be one with the same names")
    return [_cut_text(path, out / path.name, prefix and prefix / path.name, shard_lines) for path in paths]


def _cut_text(source: Path, out: Path, prefix: Path | None, shard_lines: int) -> ShardedText:
    """Cuts a file and its prefixes."""
    spans, checksum = _cut_lines(source, shard_lines)
    if prefix is None:
        return ShardedText(source, out, [Shard(span) for span in spans], {"text": checksum, "prefix": None})
    prefixes, prefix_checksum = _cut_lines(prefix, shard_lines)
    counts = [sum(span.lines for span in side) for side in (prefixes, spans)]
    if counts[0] != counts[1]:
        raise ValueError(f"{prefix} has {counts[0]} lines, {source} has {counts[1]}: give one prefix a line, or none")
    return ShardedText(source, out, list(map(Shard, spans, prefixes)), {"text": checksum, "prefix": prefix_checksum})


def _cut_lines(path: Path, shard_lines: int) -> tuple[list[LineSpan], str]:
    """Returns the spans of a file and its checksum; keeps one span in memory at a time.

    Raises ValueError for a pipe, because each span is read again when it is translated.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder, a pipe or a device; a corpus is read twice: save it as a file first")
    spans: list[LineSpan] = []
    text_hash, before, offset = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while True:
            lines, size, checksum = list[bytes](), 0, hashlib.sha256()
            while len(lines) < shard_lines:
                line, line_size = _read_line(file, checksum, text_hash)
                if not line_size:
                    break
                lines.append(line)
                size += line_size
            if not lines:
                return spans, text_hash.hexdigest()
            decode_lines(b"".join(lines), str(path), before)
            spans.append(LineSpan(str(path.absolute()), before, len(lines), offset, size, checksum.hexdigest()))
            before, offset = before + len(lines), offset + size


def _read_line(file: BinaryIO, *checksums: "hashlib._Hash") -> tuple[bytes, int]:
    """Reads a line with its line end, and adds it to the checksums; returns it, and its size in the file.

    Of a very long line the beginning is returned, `MAX_LINE_BYTES` at most, which no model translates.
    """
    content = part = file.readline(MAX_LINE_BYTES)
    size = 0
    while part:
        for checksum in checksums:
            checksum.update(part)
        size += len(part)
        part = b"" if part.endswith(b"\n") else file.readline(MAX_LINE_BYTES)
    if size > len(content):  # the last character may be cut
        content = content[:-4].decode("utf-8", "ignore").encode() + b"\n"
    return content, size


@contextmanager
def plain_text(path: Path, folder: Path) -> Iterator[Path]:
    """Yields `path`, or where it is compressed a file of the same lines in `folder`, which is removed at the end.

    Raises ValueError for a damaged file, and where another process unpacks into `folder`. Raises OSError for a file
    that cannot be read.
    """
    is_compressed = False
    if path.is_file():
        with path.open("rb") as file:
            is_compressed = compression_of(file.read(LONGEST_SIGNATURE)) is not None
    if not is_compressed:
        yield path
        return
    with exclusive_lock(folder, "translation"):
        try:
            plain = folder / plain_name(path)
            atomic_write(plain, lambda temporary: _write_lines(path, temporary))
            yield plain
        finally:
            remove(folder)


def _write_lines(path: Path, plain: Path) -> None:
    with plain.open("wb") as file:
        file.writelines(line + b"\n" for line in read_byte_lines(path))
