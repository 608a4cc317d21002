"""Texts cut into shards: so many lines of a file, known by their place and their checksum."""

import hashlib
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from transduce.text.lines import lines_of

__all__ = ["Shard", "Span", "Text", "texts_of"]


class Span(NamedTuple):
    """Whole lines of a file: `lines` of them, with so many `before` them; `size` bytes from `offset` on."""

    path: str
    before: int
    lines: int
    offset: int
    size: int
    sha256: str

    def read(self) -> list[str]:
        """The lines; a `ValueError` where the file is not what it was when it was cut."""
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            content = file.read(self.size)
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise ValueError(f"{self.path} was changed while it was translated; the same command takes it as it is now")
        return lines_of(content, self.path, self.before)


class Shard(NamedTuple):
    """Lines of a text, and what their translations are to begin with."""

    source: Span
    prefix: Span | None = None


class Text(NamedTuple):
    """A file, cut into shards, and where its translation is to be."""

    source: Path
    out: Path
    shards: list[Shard]
    checksums: dict[str, str | None]  # of the whole text, and of the prefixes

    @property
    def lines(self) -> int:
        """How many it has."""
        return sum(shard.source.lines for shard in self.shards)


def texts_of(source: Path, out: Path, prefix: Path | None, shard_lines: int) -> list[Text]:
    """The text of a file, or each of a folder, hidden ones left out, whose outputs have the same names in `out`.

    A `ValueError` for what is no text, here and not when its turn comes.
    """
    if not source.is_dir():
        return [_text(source, out, prefix, shard_lines)]
    paths = [path for path in sorted(source.iterdir()) if not path.name.startswith(".")]
    if not paths:
        raise ValueError(f"{source} is a folder without files; name a text, or a folder of texts")
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path} is no file; a folder that is translated has nothing but texts in it")
    if out.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{out} lies in {source}, and would be taken for a text of it; choose a folder beside it")
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; the text is a folder, and its translations want one too")
    if prefix is not None and not prefix.is_dir():
        raise ValueError(
            f"{prefix} is a file; the text is a folder, and its prefixes want one too, with the same names"
        )
    return [_text(path, out / path.name, prefix and prefix / path.name, shard_lines) for path in paths]


def _text(source: Path, out: Path, prefix: Path | None, shard_lines: int) -> Text:
    """A file and its prefixes, cut."""
    spans, checksum = _cut(source, shard_lines)
    if prefix is None:
        return Text(source, out, [Shard(span) for span in spans], {"text": checksum, "prefix": None})
    prefixes, other = _cut(prefix, shard_lines)
    counts = [sum(span.lines for span in side) for side in (prefixes, spans)]
    if counts[0] != counts[1]:
        raise ValueError(f"{prefix} has {counts[0]} lines, {source} has {counts[1]}: one prefix a line, or none")
    return Text(source, out, list(map(Shard, spans, prefixes)), {"text": checksum, "prefix": other})


def _cut(path: Path, many: int) -> tuple[list[Span], str]:
    """A file's lines, so many at a time, and the checksum of the whole, reading it once and never all of it.

    A `ValueError` for a pipe: every shard is read again when its turn comes.
    """
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{path} is a folder, a pipe or a device; with --engine a text is read twice: write it down first"
        )
    spans: list[Span] = []
    whole, before, offset = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while rows := list(islice(file, many)):
            content = b"".join(rows)
            lines_of(content, str(path), before)
            whole.update(content)
            checksum = hashlib.sha256(content).hexdigest()
            spans.append(Span(str(path.absolute()), before, len(rows), offset, len(content), checksum))
            before, offset = before + len(rows), offset + len(content)
    return spans, whole.hexdigest()
