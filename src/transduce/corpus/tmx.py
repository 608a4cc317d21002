"""A streaming reader for translation memories (TMX 1.4, Localization Industry Standards Association 2005).

A translation unit (`tu`) has one variant (`tuv`) for each language. Each variant has a segment (`seg`) of text, which
may contain inline codes for the layout of the document. The file is parsed in chunks, so memory use does not grow with
its size.
"""

from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from xml.parsers import expat

from transduce.corpus.corpus_kinds import Languages
from transduce.text.lines import check_line_size

LANGUAGE = "http://www.w3.org/XML/1998/namespace}lang"
SEGMENT = ["tu", "tuv", "seg"]

INLINE_CODES = {"bpt", "ept", "it", "ph", "ut"}
"""The elements that contain codes for another program, such as HTML tags, instead of text."""

CHUNK_BYTES = 1 << 16

# Limits on what the parser keeps in memory. Real translation memories stay far below them.
MAX_MARKUP_BYTES = 1 << 20  # in a tag, in a comment, or before the first element
MAX_NAMES = 1_000  # of elements and attributes
MAX_DEPTH = 1_000  # of nested elements
MAX_LANGUAGES = 50  # in an error message


def read_units(file: BufferedIOBase, languages: Languages, name: str) -> Iterator[tuple[str, str]]:
    """Yields the source and the target of each translation unit.

    A missing side is an empty string, so that a pair has the same number as its unit. If there is no exact match for a
    language, a regional variant is used, such as "en-GB" for "en". Raises ValueError if the file is not TMX, or if no
    unit has text in both languages, which is known only at the end.
    """
    names: dict[str, str] = {}
    parser = expat.ParserCreate(namespace_separator="}", intern=names)
    parser.buffer_text = True
    reader = UnitReader(parser, languages, name)
    has_whole_unit, size = False, 0
    while True:
        chunk = file.read(CHUNK_BYTES)
        size += len(chunk)
        try:
            parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            raise _malformed_error(name, str(error)) from None
        except (LookupError, ValueError) as error:
            if names:  # a handler raised the error, which already has a message for users
                raise
            raise ValueError(
                f"{name} cannot be read: {error}; convert it with `iconv -t UTF-8`, and declare UTF-8 in its first line"
            ) from None
        if chunk:
            unparsed = size - (parser.CurrentByteIndex if names else 0)
            _check_limits(unparsed, names, f"{name}: line {parser.CurrentLineNumber}")
        for unit in reader.units:
            has_whole_unit = has_whole_unit or all(unit)
            yield unit
        reader.units.clear()
        if not chunk:
            break
    if not has_whole_unit:
        listed = ", ".join(sorted(reader.all_languages)) or "no language"
        raise ValueError(f"{name} has no unit with text in both {languages[0]} and {languages[1]}; it has {listed}")


def _check_limits(unparsed: int, names: Mapping[str, str], place: str) -> None:
    """Raises ValueError if the parser would have to keep too many unparsed bytes or too many names."""
    if unparsed > MAX_MARKUP_BYTES:
        raise ValueError(
            f"{place} has a tag, a comment or a declaration of more than {MAX_MARKUP_BYTES:,} bytes; "
            "remove it, or export the file again"
        )
    if len(names) > MAX_NAMES:
        raise ValueError(f"{place} has the last of more than {MAX_NAMES:,} names of elements: this is not TMX")


def _malformed_error(name: str, reason: str) -> ValueError:
    return ValueError(f"{name} is not well-formed XML: {reason}; mend that place, or export the file again")


class UnitReader:
    """Event handlers for the XML parser. They collect the translation units and discard everything else."""

    def __init__(self, parser: expat.XMLParserType, languages: Languages, name: str) -> None:
        self.units: list[tuple[str, str]] = []
        self.all_languages: set[str] = set()
        self._parser, self._codes, self._name = parser, tuple(map(_normalise, languages)), name
        self._path: list[str] = []  # local names of the open elements
        self._language = ""  # of the open variant
        self._exact, self._regional = ["", ""], ["", ""]  # texts of the open unit
        self._text: list[str] | None = None  # of the open segment
        self._size = self._open_codes = 0
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.DefaultHandlerExpand = self._add_text, self._refuse_entity

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        element = tag.rpartition("}")[2]
        if not self._path and element != "tmx":
            raise ValueError(f"{self._name} is not TMX: its outermost element is <{element[:40]}>")
        self._path.append(element)
        if len(self._path) > MAX_DEPTH:
            place = f"{self._name}: line {self._parser.CurrentLineNumber}"
            raise ValueError(f"{place} has elements that are nested too deeply, {MAX_DEPTH:,} inside each other")
        if element == "tu":
            self._exact, self._regional = ["", ""], ["", ""]
        elif self._path[-2:] == SEGMENT[:2]:
            # The attribute is named `lang` in TMX before version 1.2.
            self._language = attributes.get(LANGUAGE) or attributes.get("lang") or ""
            if self._language and len(self.all_languages) < MAX_LANGUAGES:
                self.all_languages.add(self._language[:40])
        elif self._path[-3:] == SEGMENT:
            self._text, self._size, self._open_codes = [], 0, 0
        elif element in INLINE_CODES:
            self._open_codes += 1

    def _end(self, tag: str) -> None:
        element = self._path[-1]
        if element == "tu":
            source, target = (exact or regional for exact, regional in zip(self._exact, self._regional, strict=True))
            self.units.append((source, target))
        elif self._text is not None and self._path[-3:] == SEGMENT:
            self._keep("".join(self._text))
            self._text = None
        elif element in INLINE_CODES:
            self._open_codes -= 1
        self._path.pop()

    def _keep(self, text: str) -> None:
        """Stores the text of a segment if the open unit has no text in that language yet.

        Text in a regional variant is stored separately, because it counts only if there is no exact match.
        """
        code = _normalise(self._language)
        for side, language in enumerate(self._codes):
            texts = self._exact if code == language else self._regional if code.startswith(f"{language}-") else None
            if texts is not None and not texts[side] and text.strip():
                texts[side] = text

    def _add_text(self, text: str) -> None:
        """Appends text to the open segment, ignoring the content of inline codes."""
        if self._text is not None and not self._open_codes:
            self._text.append(text)
            self._size += len(text)
            check_line_size(self._size, self._name, self._parser.CurrentLineNumber)

    def _refuse_entity(self, text: str) -> None:
        """Raises ValueError for an entity that the file does not declare. Other markup without a handler is ignored."""
        if text.startswith("&"):
            raise _malformed_error(self._name, f"undefined entity {text[:40]}: line {self._parser.CurrentLineNumber}")


def _normalise(code: str) -> str:
    """Converts a language code to lower case, with hyphens instead of underscores."""
    return code.lower().replace("_", "-")
