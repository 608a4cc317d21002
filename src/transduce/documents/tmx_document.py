"""Reads and writes TMX translation memories. Adds a variant in the target language to each unit that has none."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from transduce.documents import xml_tree
from transduce.documents.document import DocumentLanguages, same_language
from transduce.documents.xml_tree import XML, InlineTag, XmlDocument, children, local_name

if TYPE_CHECKING:
    from lxml import etree

LANGUAGE = f"{XML}lang"


class TmxDocument(XmlDocument):
    """A TMX translation memory. Existing text in the target language is kept unless `replace` is true."""

    def __init__(self, content: bytes, languages: DocumentLanguages, *, replace: bool = False) -> None:
        super().__init__(content, "TMX")
        header = next(children(self.root, "header"), None)
        declared = header.get("srclang") if header is not None else None
        source_language = languages.source or (declared if declared != "*all*" else None)
        if source_language is None:
            raise ValueError("neither the header of the TMX nor the model names the source language")
        target_language = languages.target_of(None, None)
        translated = foreign = 0  # numbers of units that have a translation, and of units without a source variant
        for unit in xml_tree.outermost(self.root, lambda element: local_name(element) == "tu"):
            source = next(_variants(unit, source_language), None)
            if source is None:
                foreign += 1
                continue
            target = next(_variants(unit, target_language), None)
            segment = None if target is None else next(children(target, "seg"), None)
            if segment is not None and not replace and "".join(segment.itertext()).strip():
                translated += 1
                continue
            original = next(children(source, "seg"), None)
            if original is None:
                continue
            paired = xml_tree.read_element(original, _inline)
            if target is None:
                target = source.makeelement(source.tag, {LANGUAGE: target_language})
                target.text = source.text
                xml_tree.insert_after(source, target)
            if segment is None:
                segment = target.makeelement(original.tag)
                target.append(segment)
                segment.tail = original.tail
            self.add(paired, segment, wraps=False)
        if translated:
            self.notes.append(f"{translated:,} units have a translation, which stays (--retranslate replaces it)")
        if foreign:
            self.notes.append(f"{foreign:,} units have no variant in {source_language} and stay as they are")


def _inline(element: "etree._Element") -> InlineTag:
    """Returns how to treat an inline element of TMX."""
    match local_name(element):
        case "hi":
            return InlineTag("pair")
        case "bpt":
            return InlineTag("open", element.get("i", ""))
        case "ept":
            return InlineTag("close", element.get("i", ""))
    return InlineTag("code")


def _variants(unit: "etree._Element", language: str) -> "Iterator[etree._Element]":
    for variant in unit:
        if local_name(variant) == "tuv" and same_language(variant.get(LANGUAGE) or variant.get("lang") or "", language):
            yield variant
