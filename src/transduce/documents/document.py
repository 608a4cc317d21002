"""The data types that all document formats share: formats, languages, documents, units and their inline content."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from types import ModuleType
from typing import NamedTuple

from transduce.runtime.extras import install_command


class TextFormat(StrEnum):
    """The format of an input: plain text, whose lines may have several sentences, or a structured document."""

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
    """Returns the format that the suffix of a file indicates, or None if no format has this suffix."""
    return SUFFIXES.get(path.suffix.lower())


class DocumentLanguages(NamedTuple):
    """The source and target languages of a model. A language is None if the model does not record it."""

    source: str | None
    target: str | None

    def target_of(self, source: str | None, target: str | None) -> str:
        """Returns the target language of a document that declares the languages `source` and `target`.

        If the document declares no target language, returns that of the model. Raises ValueError if the document
        declares a language other than that of the model, or if neither of them names the target language.
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
    """Returns whether two codes name the same language, ignoring the region: de-AT is the same language as de."""
    codes = [code.lower().replace("_", "-").split("-")[0] for code in (first, second)]
    return codes[0] == codes[1]


@dataclass(frozen=True, slots=True)
class OpeningTag:
    """The opening tag of a pair of inline tags. `number` identifies the pair within its unit."""

    number: int


@dataclass(frozen=True, slots=True)
class ClosingTag:
    """The closing tag of a pair of inline tags. It has the same `number` as the opening tag."""

    number: int


@dataclass(frozen=True, slots=True)
class InlineCode:
    """An inline tag without content, or inline content that is not translated.

    `number` identifies the code within its unit. A code with `is_break`, for example a line break, ends the sentence
    before it. A code with `is_point`, for example a comment, takes up no space, so it may be inside a word.
    """

    number: int
    is_break: bool = False
    is_point: bool = False


InlineItem = str | OpeningTag | ClosingTag | InlineCode
Content = tuple[InlineItem, ...]
"""The content of a unit: text, tags and codes in order.

Pairs are properly nested, and each number belongs to only one pair or code.
"""


class Unit(NamedTuple):
    """A part of a document that is translated as a whole, for example a paragraph.

    If `wraps` is true, line breaks in the text are treated as spaces; otherwise they are kept.
    """

    content: Content
    wraps: bool = False


class Document:
    """A parsed document, the base class of all formats.

    `units` lists the parts to translate, in the order of the document. `notes` are messages that tell the user which
    content is not translated.
    """

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.notes: list[str] = []

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the document with each unit replaced by its translation, and everything else unchanged."""
        raise NotImplementedError


class SpanDocument(Document):
    """A text file whose units are spans of its text. All characters outside the units are kept."""

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        super().__init__()
        self.text, self._encode = text, encode
        self._spans: list[tuple[int, int, Callable[[Content], str]]] = []

    def add(self, start: int, end: int, unit: Unit, write: Callable[[Content], str]) -> None:
        """Adds the span from `start` to `end` as a unit, unless the unit has no letters.

        `write` converts a translation of the unit to the text that replaces the span.
        """
        if has_letters(plain(unit.content)):
            self.units.append(unit)
            self._spans.append((start, end, write))

    def write(self, translations: Sequence[Content]) -> bytes:
        """Replaces the span of each unit that the translation changes, and returns the encoded text."""
        output, written = [], 0
        for unit, (start, end, write), content in zip(self.units, self._spans, translations, strict=True):
            if content != unit.content:
                output += [self.text[written:start], write(content)]
                written = end
        return self._encode("".join([*output, self.text[written:]]))


def plain(content: Content) -> str:
    """Returns the text of inline content without its tags and codes."""
    return "".join(item for item in content if isinstance(item, str))


def has_letters(text: str) -> bool:
    """Returns True if `text` contains letters; text without letters is not translated."""
    return any(character.isalpha() for character in text)


def import_library(name: str, documents: str) -> ModuleType:
    """Imports and returns the module `name`, which is needed to read `documents`, for example "PO".

    Raises ValueError if the module is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ValueError(f"{documents} is read by {name}: {install_command('documents')}") from None
