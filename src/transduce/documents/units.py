"""What every document format is read into: units of inline content, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = [
    "ClosingTag",
    "Content",
    "Document",
    "InlineCode",
    "InlineItem",
    "OpeningTag",
    "Unit",
    "has_letters",
    "plain",
]


@dataclass(frozen=True, slots=True)
class OpeningTag:
    """The beginning of a paired inline tag; `number` names the pair within its unit."""

    number: int


@dataclass(frozen=True, slots=True)
class ClosingTag:
    """The end of a paired inline tag."""

    number: int


@dataclass(frozen=True, slots=True)
class InlineCode:
    """An empty inline tag, or inline content that is not translated; `number` names it within its unit.

    No sentence goes on after a code that `is_break`, such as the end of a line. One that `is_point` takes no room, such
    as a comment, and may stand within a word.
    """

    number: int
    is_break: bool = False
    is_point: bool = False


InlineItem = str | OpeningTag | ClosingTag | InlineCode
Content = tuple[InlineItem, ...]
"""Inline content. Pairs are nested, and every number occurs once, in a pair or in a code."""


class Unit(NamedTuple):
    """A part of a document that is translated as a whole, such as a paragraph.

    Where `wraps`, a line end within the text is a space; otherwise it stays where it is.
    """

    content: Content
    wraps: bool = False


class Document(Protocol):
    """A document that was read: its units, and what is around them."""

    @property
    def units(self) -> Sequence[Unit]:
        """The units in the order of the document."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a user should know of content that is not translated, one sentence each."""
        ...

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the document with a translation for each unit, and everything else as it was."""
        ...


def plain(content: Content) -> str:
    """Returns the text of inline content without its tags and codes."""
    return "".join(item for item in content if isinstance(item, str))


def has_letters(text: str) -> bool:
    """Returns whether there is anything to translate in `text`."""
    return any(character.isalpha() for character in text)
