"""docs/corpora.md agrees with the catalogue on every archive and corpus."""

import fnmatch
import re
from pathlib import Path

from transduce.fetch import read_catalogue
from transduce.fetch.download import format_bytes

PAGE = (Path(__file__).parents[2] / "docs" / "corpora.md").read_text("utf-8")
CATALOGUE = read_catalogue()


def rows(head: str) -> list[list[str]]:
    """Returns the cells of the table that begins with `head`."""
    lines = PAGE[PAGE.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_corpus_has_its_row_with_all_its_files() -> None:
    names = {row[0].strip("`"): re.findall(r"`([^`]+)`", row[1]) for row in rows("name")}
    assert list(names) == list(CATALOGUE.corpora)
    for name, words in names.items():
        files = {file for part in CATALOGUE.corpora[name].parts for file in part.files.values()}
        stems, suffixes = ([word for word in words if word.startswith(".") == dotted] for dotted in (False, True))
        assert {stem + suffix for stem in stems for suffix in suffixes} == files


def test_every_archive_has_its_row_with_its_size_and_checksum() -> None:
    archives = dict(CATALOGUE.archives)
    for names, size, checksum, _ in rows("archive"):
        for pattern in re.findall(r"`([^`]+)`", names):
            for name in fnmatch.filter(list(archives), pattern):
                archive = archives.pop(name)
                assert size == (format_bytes(archive.bytes) if archive.bytes else "not known")
                kind = archive.checksum.partition(":")[0] if archive.checksum else None
                assert checksum == {"sha256": "SHA-256", "md5": "MD5", None: "gzip's"}[kind]
    assert not archives


def test_the_numbers_of_pairs_and_the_tables_of_the_hub_are_named() -> None:
    parts = [part for corpus in CATALOGUE.corpora.values() for part in corpus.parts]
    for part in parts:
        assert part.pairs is None or f"{part.pairs:,}" in PAGE
        assert part.hub is None or f"`{part.hub.dataset}`" in PAGE


def test_the_page_states_the_disk_space_of_a_corpus() -> None:
    sizes = re.findall(r"`(wmt14-en-\w\w)` about ([\d.]+ GB)", PAGE)
    assert len(sizes) == 2
    for name, size in sizes:
        parts = CATALOGUE.corpora[name].parts
        choices = [section.choices[0] for part in parts for section in part.sections]
        archives = {place.archive for choice in choices for place in choice.values()}
        needed = sum(CATALOGUE.archives[archive].bytes or 0 for archive in archives) + 2 * sum(
            part.text_bytes for part in parts
        )
        assert size.partition(" ")[0] in {f"{needed / 1e9:.1f}", f"{needed / 1e9:.0f}"}
