"""Documents: the names of formats, languages, and the units of inline content that every format is read into."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from types import ModuleType
from typing import NamedTuple

from transduce.runtime.extras import install_command


class TextFormat(StrEnum):
    """Plain text (lines of several sentences), or a document with structure."""

    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    SRT = "srt"
    DOCX = "docx"
    XLIFF = "xliff"
    TMX = "tmx"
    PO = "po"
    JSON = "json"
    YAML = "yaml"


SUFFIXES_OF_FORMATS = {
    TextFormat.MARKDOWN: (".md", ".markdown"),
    TextFormat.HTML: (".html", ".htm", ".xhtml"),
    TextFormat.SRT: (".srt",),
    TextFormat.DOCX: (".docx",),
    TextFormat.XLIFF: (".xlf", ".xliff", ".sdlxliff", ".mqxliff"),
    TextFormat.TMX: (".tmx",),
    TextFormat.PO: (".po", ".pot"),
    TextFormat.JSON: (".json",),
    TextFormat.YAML: (".yaml", ".yml"),
}
SUFFIXES = {suffix: kind for kind, suffixes in SUFFIXES_OF_FORMATS.items() for suffix in suffixes}


def format_by_name(path: PurePath) -> TextFormat | None:
    """The format that the suffix of a file names; None if no format has the suffix."""
    return SUFFIXES.get(path.suffix.lower())


class DocumentLanguages(NamedTuple):
    """Source and target language of the model; None if it does not record them."""

    source: str | None
    target: str | None

    def target_of(self, source: str | None, target: str | None) -> str:
        """Returns the target language of a document that names the languages `source` and `target`.

        Raises ValueError if the document names a language that is not the model's, or if neither of them names the
        target.
        """
        if source and self.source and not same_language(source, self.source):
            raise ValueError(f"the document is in {source}, and the model translates from {self.source}")
        if target and self.target and not same_language(target, self.target):
            raise ValueError(f"the document wants a translation into {target}, and the model writes {self.target}")
        language = target or self.target
        if not language:
            raise ValueError("neither the document nor the model names the target language: write it into the document")
        return language


def same_language(first: str, second: str) -> bool:
    """Whether two codes name the same language, regardless of the country: de-AT is the same as de."""
    codes = [code.lower().replace("_", "-").split("-")[0] for code in (first, second)]
    return codes[0] == codes[1]


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

    A code with `is_break`, for example a line break, ends the sentence before it. A code with `is_point`, for example a
    comment, takes up no space and may be inside a word.
    """

    number: int
    is_break: bool = False
    is_point: bool = False


InlineItem = str | OpeningTag | ClosingTag | InlineCode
Content = tuple[InlineItem, ...]
"""Inline content. Pairs are properly nested, and each number belongs to only one pair or code."""


class Unit(NamedTuple):
    """A part of a document that is translated as a whole, for example a paragraph.

    If `wraps`, a line end within the text is treated as a space; otherwise it stays a line end.
    """

    content: Content
    wraps: bool = False


class Document:
    """A parsed document: its units in order, and the content around them.

    `notes` are sentences for the user about content that is not translated.
    """

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.notes: list[str] = []

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the document with a translation for each unit; everything else stays as it was."""
        raise NotImplementedError


class SpanDocument(Document):
    """A text file whose units are spans of its text; every character outside the units is kept."""

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        super().__init__()
        self.text, self._encode = text, encode
        self._spans: list[tuple[int, int, Callable[[Content], str]]] = []

    def add(self, start: int, end: int, unit: Unit, write: Callable[[Content], str]) -> None:
        """Adds the span as a unit if it has letters; `write` returns the text of a translation."""
        if has_letters(plain(unit.content)):
            self.units.append(unit)
            self._spans.append((start, end, write))

    def write(self, translations: Sequence[Content]) -> bytes:
        """Replaces the spans of changed units, and encodes the text."""
        output, written = [], 0
        for unit, (start, end, write), content in zip(self.units, self._spans, translations, strict=True):
            if content != unit.content:
                output += [self.text[written:start], write(content)]
                written = end
        return self._encode("".join([*output, self.text[written:]]))


def plain(content: Content) -> str:
    """Text of inline content, without its tags and codes."""
    return "".join(item for item in content if isinstance(item, str))


def has_letters(text: str) -> bool:
    """Whether there is anything to translate in `text`."""
    return any(character.isalpha() for character in text)


def import_library(name: str, documents: str) -> ModuleType:
    """Imports the module `name`, which reads `documents`; raises ValueError if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"{documents} is read by {name}: {install_command('documents')}") from None
