"""Checks: which pairs may be trained on, and the report of those that may not."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from transduce.corpus.entries import CorpusSpec, Hub, files_of
from transduce.corpus.readers import bytes_of_pairs
from transduce.text.subwords import LONGEST_WORD_IN_BYTES

__all__ = ["Fault", "Report", "name_of", "readable", "readable_pairs"]

EXAMPLES = 3
"""Places that a report names for each fault."""

MARKUP = re.compile(rb"^\s*</?(?:doc|seg|srcset|refset|tstset|hl|p|mteval|dataset|src|ref)\b[^>]*>", re.IGNORECASE)


class Fault(StrEnum):
    """What may be wrong with a pair; the value is what people are told."""

    BAD_UTF8 = "dropped, no UTF-8"
    NUL = "dropped, with a NUL character"
    EMPTY = "dropped, with an empty side"
    LONG = "dropped, too long"
    PROPORTION = "dropped, ill-proportioned"
    MARKUP = "kept, but with SGML markup"


@dataclass
class Report:
    """How many pairs were read and kept, and of the rest how many had which fault, and where the first ones are."""

    read: int = 0
    kept: int = 0
    faults: dict[Fault, int] = field(default_factory=dict)
    places: dict[Fault, list[str]] = field(default_factory=dict)

    def note(self, fault: Fault, place: str) -> None:
        """Counts a fault found at `place`."""
        self.faults[fault] = self.faults.get(fault, 0) + 1
        places = self.places.setdefault(fault, [])
        if len(places) < EXAMPLES:
            places.append(place)

    def add(self, other: "Report") -> None:
        """Counts what was found in pairs further on."""
        self.read += other.read
        self.kept += other.kept
        for fault, count in other.faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + count
            self.places[fault] = (self.places.get(fault, []) + other.places[fault])[:EXAMPLES]

    def summary(self) -> list[str]:
        """Lines for people: what was kept, then each fault with its count and the first places."""
        lines = [f"{self.kept:,} of {self.read:,} pairs kept"]
        for fault in Fault:
            if count := self.faults.get(fault, 0):
                places = ", ".join(self.places[fault]) + (", …" if count > EXAMPLES else "")
                lines.append(f"{count:,} {fault.value}: {places}")
        return lines

    def as_dictionary(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {"read": self.read, "kept": self.kept, "faults": self.faults, "places": self.places}

    @classmethod
    def from_dictionary(cls, values: dict[str, Any]) -> "Report":
        """The report that `as_dictionary` gave."""
        faults = {Fault(name): count for name, count in values["faults"].items()}
        places = {Fault(name): list(found) for name, found in values["places"].items()}
        return cls(values["read"], values["kept"], faults, places)


def name_of(corpus: CorpusSpec) -> str:
    """What places in a corpus are called by."""
    if isinstance(corpus, Hub):
        return " ".join(part for part in (corpus.hub, corpus.config, corpus.split) if part)
    return next((path.name for path in files_of(corpus)), "embedded corpus")


def readable_pairs(corpus: CorpusSpec, report: Report, longest: int) -> Iterator[tuple[str, str, str]]:
    """As `readable`, of all pairs of a corpus."""
    return readable(enumerate(bytes_of_pairs(corpus), start=1), name_of(corpus), report, longest)


def readable(
    numbered: Iterable[tuple[int, tuple[bytes, bytes]]], name: str, report: Report, longest: int
) -> Iterator[tuple[str, str, str]]:
    """(place, source, target) of each pair that is text on both sides; the others are noted in `report`.

    So is a side that cannot have as few as `longest` subwords: many such at once would fill the memory.
    """
    for number, pair in numbered:
        report.read += 1
        place = f"{name}:{number}"
        text = _text(pair) if max(map(len, pair)) <= longest * LONGEST_WORD_IN_BYTES else Fault.LONG
        if isinstance(text, Fault):
            report.note(text, place)
            continue
        if any(MARKUP.match(side) for side in pair):
            report.note(Fault.MARKUP, place)
        yield place, *text


def _text(pair: tuple[bytes, bytes]) -> tuple[str, str] | Fault:
    """Both sides as text, or the first fault that forbids it."""
    try:
        source, target = (side.decode() for side in pair)
    except UnicodeDecodeError:
        return Fault.BAD_UTF8
    if "\0" in source or "\0" in target:
        return Fault.NUL
    if not source.strip() or not target.strip():
        return Fault.EMPTY
    return source, target
