"""This module reads corpora of every kind, one pair at a time or, for validation and testing, as a whole."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from transduce.corpus import hub, tmx
from transduce.corpus.corpus_kinds import (
    CorpusSpec,
    Embedded,
    EmbeddedTrees,
    Files,
    Hub,
    Languages,
    ParallelCorpus,
    Tmx,
    Trees,
    Tsv,
    files_of,
)
from transduce.corpus.misalignment import find_misalignment
from transduce.corpus.pair_checks import name_of
from transduce.settings import from_satellite
from transduce.storage.checksums import checksum_of
from transduce.text.compressed import decompressed
from transduce.text.lines import raw_lines, refuse_markup, refuse_other_forms

LINE_BREAKS = re.compile(r"[\r\n]+")


def read_pairs(corpus: CorpusSpec) -> Iterator[tuple[str, str]]:
    """Yields every pair of `corpus` as text.

    Raises ValueError if the lines cannot be paired, or at the first line that is not valid UTF-8.
    """
    files = files_of(corpus) or [Path()]
    for line_number, (source, target) in enumerate(read_byte_pairs(corpus), start=1):
        yield decode_line(source, files[0], line_number), decode_line(target, files[-1], line_number)


def decode_line(line: bytes, path: Path, number: int) -> str:
    """Decodes a line. Raises ValueError, which names the file and the line, if the line is not valid UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: line {number} is not UTF-8 ({error.reason}); convert the file with `iconv -t UTF-8`, "
            "or mend the line"
        ) from None


def read_byte_pairs(corpus: CorpusSpec) -> Iterator[tuple[bytes, bytes]]:
    """Yields the source and the target of every pair of `corpus` as bytes.

    The two sides are swapped if the corpus has `direction: backward`. Raises ValueError if the lines cannot be
    paired, for example because one file is longer than the other.
    """
    pairs = _read_sides(corpus)
    if isinstance(corpus, ParallelCorpus) and corpus.direction == "backward":
        return ((source, target) for target, source in pairs)
    return pairs


def _read_sides(corpus: CorpusSpec) -> Iterator[tuple[bytes, bytes]]:
    """Yields both sides of every pair of `corpus` in the order of its files or columns, regardless of `direction`."""
    match corpus:
        case Files(source=source, target=target):
            return _read_two_files(Path(source), Path(target))
        case Tsv(tsv=path):
            return _read_tsv(Path(path))
        case Tmx(tmx=path, languages=languages):
            return _read_tmx(Path(path), languages)
        case Hub():
            return _read_hub(corpus)
        case Embedded(embedded=split):
            return _read_embedded(split)
        case Trees() | EmbeddedTrees():
            read_tree_pairs: Callable[[Trees | EmbeddedTrees], Iterator[tuple[bytes, bytes]]]
            read_tree_pairs = from_satellite("transduce.parsing.treebank_reader:read_tree_pairs")
            return read_tree_pairs(corpus)


def read_byte_lines(path: Path) -> Iterator[bytes]:
    r"""Yields the lines of a plain or compressed file as bytes, without line ends and without a byte order mark.

    A line ends only at "\n", and a "\r" before it is removed. Raises ValueError if a line is too long, or if the
    beginning of the file shows that it is not UTF-8 text.
    """
    with _decompress(path) as file:
        for index, line in enumerate(raw_lines(file, str(path))):
            yield _strip_first_line(line, path) if index == 0 else line.rstrip(b"\n").removesuffix(b"\r")


@contextmanager
def _decompress(path: Path) -> Iterator[BufferedIOBase]:
    with open_corpus_file(path) as file, decompressed(file, path) as content:
        yield content


def open_corpus_file(path: Path) -> BufferedReader:
    """Opens a corpus file for reading bytes.

    Raises ValueError for a folder, a pipe or a device, because a corpus is read more than once.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a folder, a pipe or a device; a corpus is a file, which can be read several times")
    return path.open("rb")


def check_files(*corpora: CorpusSpec) -> None:
    """Checks that every file of the corpora can be opened. Raises ValueError or OSError if one of them cannot."""
    for corpus in corpora:
        for path in files_of(corpus):
            open_corpus_file(path).close()


def _strip_first_line(line: bytes, path: Path) -> bytes:
    """Removes the byte order mark and the line end from the first line of a file.

    Raises ValueError if the line shows that the file is not UTF-8 text.
    """
    refuse_other_forms(line, str(path))
    return line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\n").removesuffix(b"\r")


def _read_two_files(source: Path, target: Path) -> Iterator[tuple[bytes, bytes]]:
    for source_line, target_line in zip_longest(read_byte_lines(source), read_byte_lines(target)):
        if source_line is None or target_line is None:
            raise _unequal_lines_error(source, target)
        yield source_line, target_line


def _unequal_lines_error(source: Path, target: Path) -> ValueError:
    """Builds the error for two files with different line counts.

    The message gives both line counts and, if it can be determined, the first misaligned line.
    """
    counts = {path: sum(1 for _ in read_byte_lines(path)) for path in (source, target)}
    shorter, longer = sorted(counts, key=counts.__getitem__)
    described = "No line shows where they become misaligned: look at the end first."
    if misalignment := find_misalignment(read_byte_lines(source), read_byte_lines(target)):
        described = f"The files are out of step; {misalignment.describe(str(source), str(target))}."
    return ValueError(
        f"{source} has {counts[source]:,} lines and {target} has {counts[target]:,}; line n of one must be the "
        f"translation of line n of the other. {described} Line {counts[shorter] + 1:,} is only in {longer}."
    )


def _read_tsv(path: Path) -> Iterator[tuple[bytes, bytes]]:
    for line_number, line in enumerate(read_byte_lines(path), start=1):
        source, tab, rest = line.partition(b"\t")
        if line and not tab:
            raise ValueError(f"{path}: line {line_number} has no tab; a line is source, tab, target")
        yield source, rest.partition(b"\t")[0]


def _read_tmx(path: Path, languages: Languages | None) -> Iterator[tuple[bytes, bytes]]:
    assert languages is not None  # `DataSpec` sets or requires them
    with _decompress(path) as file:
        for source, target in tmx.read_units(file, languages, str(path)):
            yield _join_lines(source), _join_lines(target)


def _read_hub(corpus: Hub) -> Iterator[tuple[bytes, bytes]]:
    assert corpus.languages is not None  # `DataSpec` sets or requires them
    needed_by = f"the corpus {{hub: {corpus.hub}}}"
    table = hub.load_table(corpus.hub, corpus.config, corpus.split, revision=corpus.revision, needed_by=needed_by)
    for source, target in hub.read_rows(table, corpus.languages, corpus.hub):
        yield _join_lines(source), _join_lines(target)


def _join_lines(text: str) -> bytes:
    """Joins a text that spans several lines into one line, and encodes it. Indentation and empty lines are removed."""
    return " ".join(filter(None, (line.strip() for line in LINE_BREAKS.split(text)))).encode()


def _read_embedded(name: str) -> Iterator[tuple[bytes, bytes]]:
    for example in from_satellite("transduce.embedded:split")(name):
        yield example.source.encode(), example.target.encode()


class ParallelText(NamedTuple):
    """The lines of a source text and of its translation, aligned by line number."""

    source: Sequence[str]
    target: Sequence[str]

    @property
    def checksum(self) -> str:
        """The SHA-256 checksums of both sides, joined with a hyphen."""
        sums = [checksum_of("\n".join(side).encode())["sha256"] for side in self]
        return "-".join(sums)


def read_parallel_text(spec: CorpusSpec) -> ParallelText:
    """Reads a whole corpus as text for validation or testing.

    In TMX files and Hugging Face data sets, pairs with an empty side are skipped, because they cannot be evaluated.
    Raises ValueError if no pair is left, or if a text file contains markup.
    """
    lines = list(read_pairs(spec))
    if isinstance(spec, Tmx | Hub):
        lines = [pair for pair in lines if all(side.strip() for side in pair)]
    if not lines:
        raise ValueError(f"{name_of(spec)}: there is no line to validate or test on")
    corpus = ParallelText([source for source, _ in lines], [target for _, target in lines])
    if isinstance(spec, Files | Tsv):
        files = files_of(spec)
        for side, path in zip(corpus, (files[0], files[-1]), strict=True):
            refuse_markup(side, str(path))
    return corpus
