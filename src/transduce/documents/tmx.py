"""TMX: adds the variant of the target language to units that lack it."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from transduce.documents.languages import DocumentLanguages, same_language
from transduce.documents.units import Content, Unit, has_letters, plain
from transduce.documents.xml_tree import (
    InlineTag,
    XmlContent,
    fill_element,
    insert_after,
    local_name,
    outermost,
    parse_xml,
    read_element,
    xml_bytes,
)

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["TmxDocument"]

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class TmxDocument:
    """A translation memory. Variants of the target language that have text stay, unless `replace`."""

    def __init__(self, content: bytes, languages: DocumentLanguages, *, replace: bool = False) -> None:
        self._original, self._replace = content, replace
        self._tree = parse_xml(content, "TMX")
        root = self._tree.getroot()
        if local_name(root) != "tmx":
            raise ValueError(f"not TMX: the root is <{local_name(root)}>; choose another --format")
        header = next((child for child in root if local_name(child) == "header"), None)
        declared = header.get("srclang") if header is not None else None
        self._source = languages.source or (declared if declared != "*all*" else None)
        if self._source is None:
            raise ValueError("neither the header of the TMX nor the model names the source language")
        self._target = languages.target_of(None, None)
        self.units: list[Unit] = []
        self._segments: list[tuple[etree._Element, XmlContent]] = []
        kept, foreign = self._read(root)
        self.notes = [f"{kept:,} units have a translation, which stays (--retranslate replaces it)"] if kept else []
        self.notes += [f"{foreign:,} units have no variant in {self._source} and stay as they are"] if foreign else []

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the memory with the new variants."""
        for (segment, source), content in zip(self._segments, translations, strict=True):
            fill_element(segment, source, content)
        return xml_bytes(self._tree, self._original)

    def _read(self, root: "etree._Element") -> tuple[int, int]:
        """Collects the units; returns how many have a translation, and how many have no source."""
        kept = foreign = 0
        for unit in outermost(root, lambda element: local_name(element) == "tu"):
            source = next(_variants(unit, self._source or ""), None)
            if source is None:
                foreign += 1
                continue
            target = next(_variants(unit, self._target), None)
            segment = None if target is None else _segment(target)
            if segment is not None and not self._replace and "".join(segment.itertext()).strip():
                kept += 1
                continue
            self._add(source, target)
        return kept, foreign

    def _add(self, source: "etree._Element", target: "etree._Element | None") -> None:
        """Adds the segment of a variant as a unit, and the variant of its translation."""
        original = _segment(source)
        if original is None:
            return
        content = read_element(original, _inline)
        if target is None:
            target = source.makeelement(source.tag, {LANGUAGE: self._target})
            target.text = source.text
            insert_after(source, target)
        segment = _segment(target)
        if segment is None:
            segment = target.makeelement(original.tag)
            target.append(segment)
            segment.tail = original.tail
        if has_letters(plain(content.content)):
            self.units.append(Unit(content.content))
            self._segments.append((segment, content))
        else:
            fill_element(segment, content, content.content)


def _inline(element: "etree._Element") -> InlineTag:
    """Returns what an inline element of TMX is."""
    match local_name(element):
        case "hi":
            return InlineTag("pair")
        case "bpt":
            return InlineTag("open", element.get("i", ""))
        case "ept":
            return InlineTag("close", element.get("i", ""))
    return InlineTag("code")


def _variants(unit: "etree._Element", language: str) -> "Iterator[etree._Element]":
    """Yields the variants of a unit in a language."""
    for variant in unit:
        if local_name(variant) == "tuv" and same_language(variant.get(LANGUAGE) or variant.get("lang") or "", language):
            yield variant


def _segment(variant: "etree._Element") -> "etree._Element | None":
    """Returns the segment of a variant."""
    return next((child for child in variant if local_name(child) == "seg"), None)
