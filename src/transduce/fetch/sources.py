"""The sources of texts: archives, whose members are read in parallel, or tables of the Hugging Face hub."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from transduce.corpus import Files, hub
from transduce.corpus.readers import read_byte_pairs
from transduce.fetch.catalogue import Choice, Part, Section, Table
from transduce.fetch.download import Unavailable
from transduce.fetch.meter import Say
from transduce.fetch.origins import Origin
from transduce.fetch.unpack import UnusableError, plain_text, unpack

__all__ = ["ArchiveSource", "HubSource", "Row", "TextSource"]

Row = Sequence[bytes]
"""A line of each language, in the order of the part's files."""

Result = TypeVar("Result")


class TextSource(Protocol):
    """Provides the texts of a corpus."""

    name: str

    def languages(self, part: Part) -> tuple[str, ...]:
        """Returns the languages in which the source has `part`; none where it does not have `part`."""

    def download(self, part: Part) -> None:
        """Downloads all that `rows` reads."""

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Yields every row of `part`; `work` is a folder for temporary files."""

    def required_bytes(self, parts: Sequence[Part]) -> int:
        """Returns the disk space that `parts` take besides the final texts, as far as sizes are recorded."""


class ArchiveSource:
    """Reads texts from the archives of the catalogue, which an origin provides."""

    def __init__(self, origin: Origin, say: Say) -> None:
        self.name, self._origin, self._say = origin.name, origin, say

    def languages(self, part: Part) -> tuple[str, ...]:
        """Returns all languages of the part."""
        return tuple(part.files)

    def required_bytes(self, parts: Sequence[Part]) -> int:
        """Returns the bytes of the archives to download, plus the size of all texts for their unpacked copies."""
        choices = [self._by_preference(section)[0] for part in parts for section in part.sections]
        names = {location.archive for choice in choices for location in choice.values()}
        return self._origin.bytes_to_download(names) + sum(part.text_bytes for part in parts)

    def download(self, part: Part) -> None:
        """Gets the archives of one choice for each section."""
        for section in part.sections:
            self._try_choices(section, lambda choice: [self._origin.archive(location) for location in choice.values()])

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Yields the rows of one section after the other."""
        for section in part.sections:
            texts = self._try_choices(section, lambda choice: self._unpack(choice, work))
            self._say(f"reading {section.name}")
            yield from _aligned_lines([texts[language] for language in part.files])
            for path in work.iterdir():  # the next section may need as much disk space
                path.unlink()

    def _by_preference(self, section: Section) -> list[Choice]:
        """Returns the choices of a section, those without a download first."""
        return sorted(section.choices, key=lambda choice: not self._origin.is_local(choice))

    def _try_choices(self, section: Section, use: Callable[[Choice], Result]) -> Result:
        """Returns the result of `use` for the first choice that succeeds; raises the origin's error if none does."""
        reasons: list[str] = []
        for choice in self._by_preference(section):
            if reasons:
                self._say(f"{section.name}: trying another archive")
            try:
                return use(choice)
            except (Unavailable, UnusableError) as error:
                reasons.append(str(error))
        raise self._origin.error("\n".join([f"{section.name} could not be fetched.", *reasons]))

    def _unpack(self, choice: Choice, work: Path) -> dict[str, Path]:
        """Returns the text of each language, a sentence a line; members of archives are copied to `work`."""
        texts, members = {}, defaultdict[Path, dict[str, Path]](dict)
        for language, location in choice.items():
            archive = self._origin.archive(location)
            if archive is None:
                texts[language] = self._origin.folder / location.file
            elif location.member is None:
                texts[language] = archive
            else:
                texts[language] = members[archive][location.member] = work / Path(location.member).name
        for archive, copies in members.items():
            self._say(f"unpacking {archive.name}")
            unpack(archive, copies)
        return {language: plain_text(path, work / f"{language}.txt") for language, path in texts.items()}


class HubSource:
    """Reads texts from the Hugging Face hub through the package `datasets`, which downloads, resumes and caches."""

    name = "hub"

    def languages(self, part: Part) -> tuple[str, ...]:
        """Returns the languages that the catalogue lists for the hub."""
        return (part.hub.languages or tuple(part.files)) if part.hub else ()

    def required_bytes(self, parts: Sequence[Part]) -> int:
        """Returns the size of the copy in the package's cache."""
        return sum(part.text_bytes for part in parts)

    def download(self, part: Part) -> None:
        """Downloads the table to the package's cache."""
        assert part.hub
        _load_table(part.hub)

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Yields the rows of the table."""
        assert part.hub
        for row in hub.read_rows(_load_table(part.hub), self.languages(part), part.hub.dataset):
            yield [side.encode() for side in row]


def _load_table(table: Table) -> Any:
    """Loads a table of the hub; raises Unavailable where the hub does not deliver it."""
    try:
        return hub.load_table(table.dataset, table.config, table.split, needed_by="--from hub")
    except ConnectionError as error:
        raise Unavailable(str(error)) from None


def _aligned_lines(texts: Sequence[Path]) -> Iterator[Row]:
    """Yields a line of each text; raises ValueError where the texts have different numbers of lines."""
    first, *rest = map(str, texts)
    pairs_with_first = [read_byte_pairs(Files(source=first, target=text)) for text in rest]
    for pairs in zip(*pairs_with_first, strict=True):
        yield [pairs[0][0], *(line for _, line in pairs)]
