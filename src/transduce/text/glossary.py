"""Glossaries, which prescribe translations for terms of the source language.

A glossary file has one term per line: source, target and an optional note, separated by tabs. If a line has no target,
the term is copied. Several lines with the same source give alternative translations, such as inflected forms.
"""

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.runtime.combining_marks import is_in_word, is_mark
from transduce.text.lines import read_lines

_log = logging.getLogger("transduce")

MAX_COLUMNS = 3

# Scripts without spaces between words, and Hangul, in which particles are attached to nouns without a space.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)


class Occurrence(NamedTuple):
    """An occurrence of a term in a line.

    `start` and `end` are character indices, and the output must contain one of the translations in `targets`.
    """

    start: int
    end: int
    targets: tuple[str, ...]


class Glossary:
    """Finds the terms of a glossary in lines, and their prescribed translations in outputs."""

    def __init__(self, targets: dict[str, tuple[str, ...]]) -> None:
        """Creates a glossary; `targets` maps each term to its alternative translations.

        Raises ValueError if there are no terms.
        """
        if not targets:
            raise ValueError("the glossary has no term: write lines of source, tab and target")
        self.targets = targets
        # Longer terms come first, because a regular expression takes the first alternative that matches at a position.
        self._terms = re.compile("|".join(map(_occurrences, sorted(targets, key=len, reverse=True))))
        self.is_spaced = not any(UNSPACED.match(target[-1]) for row in targets.values() for target in row)
        """True if the translations are in a script with spaces between words."""

    @classmethod
    def read(cls, path: Path) -> "Glossary":
        """Reads a glossary file.

        Raises ValueError if the file has no terms, or if a line has no source or more than three columns. Also raises
        ValueError if the columns are separated by commas or semicolons, because each whole line would then be a term.
        """
        targets: dict[str, tuple[str, ...]] = {}
        lines = read_lines(str(path))
        if any(line.strip() for line in lines) and all(
            "\t" not in line and re.search(r"\S[,;] ?\S", line) for line in lines if line.strip()
        ):
            raise ValueError(f"{path} has commas or semicolons between columns: write source, tab, target")
        for line_number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            source, *rest = (column.strip() for column in line.split("\t"))
            if not source or len(rest) >= MAX_COLUMNS:
                raise ValueError(
                    f"{path}: line {line_number} is not a term: write source, tab, target, and perhaps a tab and a note"
                )
            target = rest[0] if rest and rest[0] else source
            targets[source] = tuple(dict.fromkeys([*targets.get(source, ()), target]))
        if targets and not any("\t" in line for line in lines):
            _log.warning(
                f"warning: {path} has no tab: each of its lines is a term that is not translated; for a translation, "
                "write the term, a tab and its translation"
            )
        if not targets:
            raise ValueError(f"{path} has no term: write lines of source, tab and target")
        return cls(targets)

    def find(self, line: str) -> list[Occurrence]:
        """Returns the terms in `line` from left to right, without overlaps.

        If several terms begin at the same position, the longest of them is returned. A term that the glossary writes in
        lower case matches regardless of case; any other term must be written in the line exactly as in the glossary.
        """
        occurrences = []
        position = 0
        while match := self._terms.search(line, position):
            if _cuts_a_word(line, *match.span()):
                position = match.start() + 1
                continue
            position = match.end()
            term = match.group() if match.group() in self.targets else match.group().lower()
            if term in self.targets:
                occurrences.append(Occurrence(match.start(), match.end(), self.targets[term]))
        return occurrences

    def missing(self, output: str, occurrences: Sequence[Occurrence]) -> list[Occurrence]:
        """Returns the occurrences of terms whose translation is missing from `output`.

        Each translation in `output` counts for only one occurrence.
        """
        taken: list[tuple[int, int]] = []
        missing = []
        for occurrence in sorted(occurrences, key=lambda one: max(map(len, one.targets)), reverse=True):
            spans = (span for target in occurrence.targets for span in _spans(target, output))
            free = (span for span in spans if not any(span[0] < end and start < span[1] for start, end in taken))
            if span := next(free, None):
                taken.append(span)
            else:
                missing.append(occurrence)
        return sorted(missing)


def capitalise(text: str) -> str:
    """Capitalises the first letter of a text and leaves the other letters unchanged."""
    return text[:1].upper() + text[1:]


def _spans(target: str, output: str) -> list[tuple[int, int]]:
    """Returns the start and end of every place at which `output` contains the translation `target`.

    At the beginning of the output, the first letter of the translation may be capitalised.
    """
    spans = [match.span() for match in re.finditer(_whole_words(target), output)]
    first = re.search(r"\w", output)
    if first and re.compile(_whole_words(capitalise(target))).match(output, first.start()):
        spans.append((first.start(), first.start() + len(target)))
    return [span for span in spans if not _cuts_a_word(output, *span)]


def _whole_words(term: str) -> str:
    """Returns a regular expression that matches the term.

    In scripts with spaces between words, it does not match if further letters precede or follow the term.
    """
    before, after = (is_in_word(letter) and not UNSPACED.match(letter) for letter in (term[0], term[-1]))
    return ("(?<!\\w)" if before else "") + re.escape(term) + ("(?!\\w)" if after else "")


def _cuts_a_word(text: str, start: int, end: int) -> bool:
    """Returns True if a combining mark, which `\\w` does not match, shows that the match is only part of a word."""
    is_continued = end < len(text) and is_mark(text[end])
    is_spaced = not UNSPACED.match(text[start])
    return is_continued or (is_spaced and start > 0 and is_mark(text[start - 1]))


def _occurrences(term: str) -> str:
    """Returns a regular expression that finds the term in a line, ignoring case if the term is in lower case."""
    return f"(?i:{_whole_words(term)})" if term.islower() else _whole_words(term)
