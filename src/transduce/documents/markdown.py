"""Markdown (CommonMark with tables and strikethrough): text of headings, paragraphs, lists, quotes and tables."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from transduce.documents.markdown_inline import InlineReader, UnreadableInlineError, escape_inline
from transduce.documents.missing_library import import_library
from transduce.documents.paired_tags import PairedContent, pair_tags
from transduce.documents.units import Content, InlineCode, Unit, has_letters, plain

if TYPE_CHECKING:
    from markdown_it.token import Token

__all__ = ["MarkdownDocument"]

_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\r?\n.*?\n(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n.*?\n\+\+\+)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)


class InlinePlace(NamedTuple):
    """A run of inline Markdown in a file: the offsets of its lines, their lengths, and what is between the lines.

    A line end may be followed by the mark of a quote, or by indentation.
    """

    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    between: tuple[str, ...]


class MarkdownDocument:
    """A file of Markdown. A translated paragraph is one line; every character outside of text stays."""

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        self.text, self._encode = text, encode
        self.units: list[Unit] = []
        self._places: list[InlinePlace] = []
        self._paired: list[PairedContent[str]] = []
        unreadable = self._read()
        self.notes = [f"line {line} is kept: its Markdown is not understood" for line in unreadable]

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the file with the translations."""
        output, end = [], 0
        for unit, place, paired, content in zip(self.units, self._places, self._paired, translations, strict=True):
            if content == unit.content:
                continue
            output += [self.text[end : place.starts[0]], _markup(paired, content)]
            end = place.starts[-1] + place.lengths[-1]
        return self._encode("".join([*output, self.text[end:]]))

    def _read(self) -> list[int]:
        """Collects the units; returns the lines that are not understood."""
        markdown_it = import_library("markdown_it", "Markdown")
        front = _FRONT_MATTER.match(self.text)
        skipped = front.end() if front else 0
        body = self.text[skipped:]
        tokens = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body)
        lines, starts, place = body.split("\n"), [], skipped
        for line in lines:
            starts.append(place)
            place += len(line) + 1
        unreadable, column, last_line = [], 0, -1
        first_line = 1 + self.text.count("\n", 0, skipped)
        for token in tokens:
            if token.type != "inline" or not token.content or token.map is None:
                continue
            first = token.map[0]
            column = column if first == last_line else 0
            inline = _find(token.content, lines, starts, first, column)
            if inline is None or not self._add(token, inline):
                unreadable.append(first + first_line)
                continue
            last_line = first
            column = inline.starts[0] + inline.lengths[0] - starts[first]
        return unreadable

    def _add(self, token: "Token", place: InlinePlace) -> bool:
        """Adds a unit for an inline token, if it has letters; returns whether its Markdown is understood."""
        try:
            paired = pair_tags(InlineReader(token.content, place.between).read(token.children or []))
        except UnreadableInlineError:
            return False
        if has_letters(plain(paired.content)):
            self.units.append(Unit(paired.content, wraps=True))
            self._places.append(place)
            self._paired.append(paired)
        return True


def _find(content: str, lines: Sequence[str], starts: Sequence[int], first: int, column: int) -> InlinePlace | None:
    """Returns where the lines of `content` stand in the lines of a file from `first` on; None where they do not."""
    places, lengths, between = list[int](), list[int](), list[str]()
    for number, part in enumerate(content.split("\n"), start=first):
        start = lines[number].find(part, column if number == first else 0) if number < len(lines) else -1
        if start < 0:
            return None
        if number > first:
            end = places[-1] + lengths[-1] - starts[number - 1]
            between.append(f"{lines[number - 1][end:]}\n{lines[number][:start]}")
        places.append(starts[number] + start)
        lengths.append(len(part))
    return InlinePlace(tuple(places), tuple(lengths), tuple(between))


def _markup(paired: PairedContent[str], content: Content) -> str:
    """Returns the Markdown of a content."""
    parts = []
    begins_line = True
    for item in content:
        parts.append(escape_inline(item, begins_line=begins_line) if isinstance(item, str) else paired.payloads[item])
        begins_line = isinstance(item, InlineCode) and item.is_break
    return "".join(parts)
