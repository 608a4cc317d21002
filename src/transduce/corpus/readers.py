"""How each form of corpus is read, a pair at a time."""

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase, BufferedReader
from itertools import zip_longest
from pathlib import Path

from transduce.corpus import hub
from transduce.corpus import tmx as memory
from transduce.corpus.entries import CorpusSpec, Embedded, Files, Hub, Languages, Tmx, Tsv, files_of
from transduce.corpus.misalignment import find_misalignment

__all__ = ["bytes_of_pairs", "lines_of", "opened", "pairs"]

LONGEST_LINE = 1 << 26
"""Bytes of a line beyond which a file is no text with a sentence a line; without a bound it would all be read."""

# How files begin that are no text, and what to do with them. The longer of two that begin alike comes first.
PACKED = {
    b"BZh91AY&SY": "compressed with bzip2; unpack it with `bunzip2`",
    b"\xfd7zXZ\0": "compressed with xz; unpack it with `unxz`",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it with `unzstd`",
    b"PK\x03\x04": "a ZIP archive; unpack it with `unzip`",
}
WIDE = {
    b"\xff\xfe\0\0": "UTF-32; convert it with `iconv -f UTF-32 -t UTF-8`",
    b"\0\0\xfe\xff": "UTF-32; convert it with `iconv -f UTF-32 -t UTF-8`",
    b"\xff\xfe": "UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`",
    b"\xfe\xff": "UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`",
}

BREAKS = re.compile(r"[\r\n]+")


def pairs(corpus: CorpusSpec) -> Iterator[tuple[str, str]]:
    """Every pair of `corpus` as text; `ValueError` at the first line that is no UTF-8."""
    files = files_of(corpus) or [Path()]
    for number, (source, target) in enumerate(bytes_of_pairs(corpus), start=1):
        yield _decoded(source, files[0], number), _decoded(target, files[-1], number)


def _decoded(line: bytes, path: Path, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: line {number} is no UTF-8 ({error.reason}); convert the file with `iconv -t UTF-8`, "
            "or mend the line"
        ) from None


def bytes_of_pairs(corpus: CorpusSpec) -> Iterator[tuple[bytes, bytes]]:
    """Every pair of `corpus` as it stands in the files; `ValueError` where the sides cannot be paired."""
    match corpus:
        case Files(source=source, target=target):
            return _side_by_side(Path(source), Path(target))
        case Tsv(tsv=path):
            return _columns(Path(path))
        case Tmx(tmx=path, languages=languages):
            return _units(Path(path), _said(languages))
        case Hub():
            return _rows(corpus, _said(corpus.languages))
        case Embedded(embedded=split):
            return _embedded(split)


def lines_of(path: Path) -> Iterator[bytes]:
    r"""The lines of a plain or gzipped file, split on "\n" only, without a "\r" before it or a byte order mark.

    `ValueError` for what is no text with a sentence a line.
    """
    with _unpacked(path) as file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b"")):
            if len(line) == LONGEST_LINE:
                raise ValueError(f"{path}: line {number + 1} is beyond {LONGEST_LINE:,} bytes; is that a text?")
            yield _without_marks(line, path) if number == 0 else line.rstrip(b"\n").removesuffix(b"\r")


@contextmanager
def _unpacked(path: Path) -> Iterator[BufferedIOBase]:
    """The content of a plain or gzipped file; a `ValueError` from where a gzipped one is damaged."""
    try:
        with opened(path) as plain:
            # The name says nothing: archives are renamed, and gzip begins with these two bytes.
            zipped = plain.peek(2)[:2] == b"\x1f\x8b"
            with gzip.open(plain) if zipped else plain as file:
                _refuse(PACKED, file.peek(10), path)
                yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is a damaged gzip file ({error}); fetch or make it again") from None


def opened(path: Path) -> BufferedReader:
    """A corpus as bytes; `ValueError` for a folder, and for a pipe: a corpus is read several times."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder, a pipe or a device; a corpus is a file, which can be read several times")
    return path.open("rb")


def _refuse(what: Mapping[bytes, str], beginning: bytes, path: Path) -> None:
    """A `ValueError` for a file that begins as one of these does."""
    for start, kind in what.items():
        if beginning.startswith(start):
            raise ValueError(f"{path} is {kind}")


def _without_marks(line: bytes, path: Path) -> bytes:
    """The first line of a file, without its end and without a byte order mark."""
    _refuse(WIDE, line, path)
    if not line.endswith(b"\n") and b"\r" in line.rstrip(b"\r"):
        raise ValueError(f"{path} has carriage returns and no line feed; convert it with `tr '\\r' '\\n'`")
    return line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\n").removesuffix(b"\r")


def _side_by_side(source: Path, target: Path) -> Iterator[tuple[bytes, bytes]]:
    for left, right in zip_longest(lines_of(source), lines_of(target)):
        if left is None or right is None:
            raise _unequal(source, target)
        yield left, right


def _unequal(source: Path, target: Path) -> ValueError:
    """The error for two files of unequal length: both counts, and the first line that cannot be right."""
    counts = {path: sum(1 for _ in lines_of(path)) for path in (source, target)}
    shorter, longer = sorted(counts, key=counts.__getitem__)
    return ValueError(
        f"{source} has {counts[source]:,} lines and {target} has {counts[target]:,}; line n of one must be the "
        f"translation of line n of the other. {_where_they_part(source, target)} "
        f"Line {counts[shorter] + 1:,} is only in {longer}."
    )


def _where_they_part(source: Path, target: Path) -> str:
    found = find_misalignment(lines_of(source), lines_of(target))
    if found is None:
        return "Nothing in the lines shows where they part: look at the end first."
    ahead = target if found.shift > 0 else source
    return (
        f"The first line that cannot be right is most likely line {found.line + 1:,}: from there on the sides fit "
        f"better with {ahead} read {abs(found.shift)} lower (judged by lengths, numbers and punctuation)."
    )


def _columns(path: Path) -> Iterator[tuple[bytes, bytes]]:
    for number, line in enumerate(lines_of(path), start=1):
        source, tab, rest = line.partition(b"\t")
        if line and not tab:
            raise ValueError(f"{path}: line {number} has no tab; a line is source, tab, target")
        yield source, rest.partition(b"\t")[0]


def _said(languages: Languages | None) -> Languages:
    """The languages of a corpus that holds several, which the section `data` gave it."""
    assert languages is not None
    return languages


def _units(path: Path, languages: Languages) -> Iterator[tuple[bytes, bytes]]:
    with _unpacked(path) as file:
        for source, target in memory.units(file, languages, str(path)):
            yield _on_one_line(source), _on_one_line(target)


def _rows(corpus: Hub, languages: Languages) -> Iterator[tuple[bytes, bytes]]:
    wish = f"the corpus {{hub: {corpus.hub}}}"
    table = hub.table(corpus.hub, corpus.config, corpus.split, revision=corpus.revision, wish=wish)
    for source, target in hub.rows(table, languages, corpus.hub):
        yield _on_one_line(source), _on_one_line(target)


def _on_one_line(text: str) -> bytes:
    """A sentence that was laid out on several lines, without what indents them."""
    return " ".join(filter(None, (line.strip() for line in BREAKS.split(text)))).encode()


def _embedded(name: str) -> Iterator[tuple[bytes, bytes]]:
    # Imported where it is used: the lexicon takes time to read, and most corpora do without.
    from transduce.embedded import split

    for example in split(name):
        yield example.source.encode(), example.target.encode()
