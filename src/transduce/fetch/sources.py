"""What gives the rows of a part: archives, unpacked and read side by side, or tables of the hub."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from transduce.corpus import Files, hub
from transduce.corpus.readers import read_byte_pairs
from transduce.fetch.catalogue import Choice, Part, Section, Table
from transduce.fetch.download import Unavailable
from transduce.fetch.origins import Origin
from transduce.fetch.unpack import UnusableError, plain, unpack

__all__ = ["ArchiveSource", "HubSource", "Row", "TextSource"]

Row = Sequence[bytes]
"""A line a language, in the order of the part's files."""

Taken = TypeVar("Taken")


class TextSource(Protocol):
    """Where texts come from, as fetching uses it."""

    name: str

    def languages(self, part: Part) -> tuple[str, ...]:
        """The sides of `part` that there are here; none where the part is not here."""

    def get(self, part: Part) -> None:
        """Downloads what `rows` needs."""

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """Every row of `part`; `work` is a folder for what is needed on the way."""

    def room(self, parts: Sequence[Part]) -> int:
        """The bytes, as far as known, that getting `parts` takes up besides the texts themselves."""


class ArchiveSource:
    """Reads texts from the archives of the catalogue, which an origin provides."""

    def __init__(self, origin: Origin, say: Callable[[str], None]) -> None:
        self.name, self._origin, self._say = origin.name, origin, say

    def languages(self, part: Part) -> tuple[str, ...]:
        """All of them."""
        return tuple(part.files)

    def room(self, parts: Sequence[Part]) -> int:
        """The archives that have to be got, and as much as all texts for those being unpacked."""
        choices = [self._by_preference(section)[0] for part in parts for section in part.sections]
        names = {location.archive for choice in choices for location in choice.values()}
        return self._origin.bytes_to_get(names) + sum(part.text for part in parts)

    def get(self, part: Part) -> None:
        """Sees that the archives are at hand, of each section those of one choice."""
        for section in part.sections:
            self._first(section, lambda choice: [self._origin.archive(location) for location in choice.values()])

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """The rows of the sections, one after the other."""
        for section in part.sections:
            texts = self._first(section, lambda choice: self._unpacked(choice, work))
            self._say(f"reading {section.name}")
            yield from _side_by_side([texts[language] for language in part.files])
            for path in work.iterdir():  # it would only be in the way of the next, which may need as much room
                path.unlink()

    def _by_preference(self, section: Section) -> list[Choice]:
        return sorted(section.choices, key=lambda choice: not self._origin.is_at_hand(choice))

    def _first(self, section: Section, take: Callable[[Choice], Taken]) -> Taken:
        """What `take` makes of the first choice with which it succeeds; the origin's refusal where it is none."""
        reasons: list[str] = []
        for choice in self._by_preference(section):
            if reasons:
                self._say(f"{section.name}: another archive has it too")
            try:
                return take(choice)
            except (Unavailable, UnusableError) as error:
                reasons.append(str(error))
        raise self._origin.refusal("\n".join([f"{section.name} could not be had.", *reasons]))

    def _unpacked(self, choice: Choice, work: Path) -> dict[str, Path]:
        """The texts of a choice, a sentence a line; members of archives are copied to `work`."""
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
        return {language: plain(path, work / f"{language}.txt") for language, path in texts.items()}


class HubSource:
    """Reads texts from the hub, through the package `datasets`, which downloads, resumes and caches."""

    name = "hub"

    def languages(self, part: Part) -> tuple[str, ...]:
        """Those that the catalogue says."""
        return (part.hub.languages or tuple(part.files)) if part.hub else ()

    def room(self, parts: Sequence[Part]) -> int:
        """The copy that the package keeps."""
        return sum(part.text for part in parts)

    def get(self, part: Part) -> None:
        """Has the package download and keep the table."""
        assert part.hub
        _table(part.hub)

    def rows(self, part: Part, work: Path) -> Iterator[Row]:
        """The rows of a table."""
        assert part.hub
        for row in hub.read_rows(_table(part.hub), self.languages(part), part.hub.dataset):
            yield [side.encode() for side in row]


def _table(table: Table) -> Any:
    """A table of the hub; `Unavailable` where the hub does not give it."""
    try:
        return hub.load_table(table.dataset, table.config, table.split, needed_by="--from hub")
    except ConnectionError as error:
        raise Unavailable(str(error)) from None


def _side_by_side(texts: Sequence[Path]) -> Iterator[Row]:
    """The lines of texts that must be equally long; a `ValueError` says which is not, and where they part."""
    first, *others = map(str, texts)
    pairs_of_first = [read_byte_pairs(Files(source=first, target=other)) for other in others]
    for pairs in zip(*pairs_of_first, strict=True):
        yield [pairs[0][0], *(line for _, line in pairs)]
