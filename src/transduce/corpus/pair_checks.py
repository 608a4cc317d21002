"""This module checks training pairs, and reports which of them were dropped and which look suspicious."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from transduce.corpus.corpus_kinds import CorpusSpec, EmbeddedTrees, Hub, Trees, files_of
from transduce.inspection.line_checks import Check
from transduce.text.byte_level import LONGEST_WORD_IN_BYTES
from transduce.text.normalisation import has_text_to_translate

EXAMPLES = 3
"""The number of places that a report lists for each fault."""

MARKUP = re.compile(
    r"^\s*</?(?:doc|seg|srcset|refset|tstset|hl|p|mteval|dataset|src|ref)\b[^>]*>", re.IGNORECASE | re.ASCII
)

NumberedPair = tuple[int, tuple[bytes, bytes]]
"""The number of a pair in its corpus, counted from 1, and both sides as bytes."""


class CheckedPair(NamedTuple):
    """A pair of lines that passed the checks, and its place: the name of the file or corpus, and the line number."""

    place: str
    source: str
    target: str

    @property
    def has_markup(self) -> bool:
        """True if either side begins with a tag that is used in evaluation files, for example `<seg>`."""
        return any(map(MARKUP.match, (self.source, self.target)))


class Fault(StrEnum):
    """The faults that a pair may have. The values are shown to users and stored in `store.json`."""

    BAD_UTF8 = "dropped, no UTF-8"
    NUL = "dropped, with a NUL character"
    EMPTY = "dropped, with an empty side"
    NO_TEXT = "dropped, whose source has no text to translate"
    LONG = "dropped, too long"
    RATIO = "dropped, ill-proportioned"
    UNKNOWN = "dropped, with symbols that the model of --from does not have"
    MARKUP = "kept, but with SGML markup"


REMEDIES: dict[Fault | Check, str] = {Fault.UNKNOWN: "; --grow-vocabulary adds them"}
"""Advice for some faults, which is printed after the places where the fault occurs."""


@dataclass
class Report:
    """Counts the pairs that were read, the pairs that were kept and the pairs with each fault.

    It also stores the first `EXAMPLES` places at which each fault occurs.
    """

    read: Annotated[int, Field(ge=0)] = 0
    kept: Annotated[int, Field(ge=0)] = 0
    faults: dict[Fault | Check, Annotated[int, Field(ge=0)]] = field(default_factory=dict)
    places: dict[Fault | Check, list[str]] = field(default_factory=dict)

    def note(self, fault: Fault | Check, place: str) -> None:
        """Counts one occurrence of a fault, and stores `place` unless `EXAMPLES` places are already stored for it."""
        self.faults[fault] = self.faults.get(fault, 0) + 1
        places = self.places.setdefault(fault, [])
        if len(places) < EXAMPLES:
            places.append(place)

    def add(self, later: "Report") -> None:
        """Adds the counts and places from the report on the pairs that follow."""
        self.read += later.read
        self.kept += later.kept
        for fault, count in later.faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + count
            self.places[fault] = (self.places.get(fault, []) + later.places[fault])[:EXAMPLES]

    def summary(self) -> list[str]:
        """Returns a summary for users: one line with the number of pairs kept, then one line for each fault.

        The line for a fault gives its count and the first places at which it occurs.
        """
        lines = self.counts()
        for index, (fault, count) in enumerate(self._found(), start=1):
            places = ", ".join(self.places.get(fault, [])) + (", …" if count > EXAMPLES else "")
            lines[index] += f": {places}{REMEDIES.get(fault, '')}"
        return lines

    def counts(self) -> list[str]:
        """Returns one line with the number of pairs kept, and one line with the number of pairs for each fault."""
        return [
            f"{self.kept:,} of {self.read:,} pairs kept",
            *(f"{n:,} {_phrase(fault)}" for fault, n in self._found()),
        ]

    def _found(self) -> list[tuple[Fault | Check, int]]:
        """Returns the faults that occurred, each with its count."""
        return [(fault, self.faults[fault]) for fault in (*Fault, *Check) if self.faults.get(fault)]


def _phrase(fault: Fault | Check) -> str:
    return str(fault) if isinstance(fault, Fault) else f"dropped by `checks`, {fault.phrase}"


def name_of(corpus: CorpusSpec) -> str:
    """Returns the name of a corpus for messages and reports."""
    if isinstance(corpus, Hub):
        return " ".join(part for part in (corpus.hub, corpus.config, corpus.split) if part)
    if isinstance(corpus, Trees):
        return Path(corpus.trees).name
    return next((path.name for path in files_of(corpus)), "embedded corpus")


def check_pairs(
    pairs: Iterable[NumberedPair], corpus: CorpusSpec, report: Report, max_length: int, dropped: Mapping[int, Check]
) -> Iterator[CheckedPair]:
    """Yields each pair that passes the checks, and counts the faults of all others in `report`.

    A pair fails if its number is in `dropped`, if it is not valid text or has an empty side, or if a translator would
    copy its source because there is nothing to translate. A side with more bytes than `max_length` subwords can hold is
    dropped before encoding, because encoding a batch of very long lines would take gigabytes of memory.
    """
    name, has_trees = name_of(corpus), isinstance(corpus, Trees | EmbeddedTrees)
    for number, pair in pairs:
        report.read += 1
        place = f"{name}:{number}"
        if number in dropped:
            report.note(dropped[number], place)
            continue
        text = _decode(pair) if max(map(len, pair)) <= max_length * LONGEST_WORD_IN_BYTES else Fault.LONG
        if isinstance(text, Fault):
            report.note(text, place)
            continue
        if not has_trees and not has_text_to_translate(text[0]):
            report.note(Fault.NO_TEXT, place)
            continue
        yield CheckedPair(place, *text)


def _decode(pair: tuple[bytes, bytes]) -> tuple[str, str] | Fault:
    """Returns both sides as text, or the first fault for which the pair is dropped."""
    try:
        source, target = (side.decode() for side in pair)
    except UnicodeDecodeError:
        return Fault.BAD_UTF8
    if "\0" in source or "\0" in target:
        return Fault.NUL
    if not source.strip() or not target.strip():
        return Fault.EMPTY
    return source, target
