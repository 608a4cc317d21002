"""Reads and writes XLIFF files of versions 1.2 and 2. Writes the translation of each segment to its target element."""

from typing import TYPE_CHECKING

from transduce.documents import xml_tree
from transduce.documents.document import DocumentLanguages
from transduce.documents.xml_tree import XML, InlineTag, XmlDocument, children, local_name

if TYPE_CHECKING:
    from lxml import etree

_REPLACED_STATES = {"new", "needs-translation", "needs-adaptation", "needs-l10n", "initial"}
_TAGS = {  # the elements of both versions; their attribute `rid` or `id` identifies the pair
    "g": InlineTag("pair"),
    "pc": InlineTag("pair"),
    "mrk": InlineTag("pair"),
    "bpt": InlineTag("open"),
    "ept": InlineTag("close"),
    "bx": InlineTag("open"),
    "ex": InlineTag("close"),
    "sc": InlineTag("open"),
    "ec": InlineTag("close"),
}
_OPENING = {"ept": "bpt", "ex": "bx", "ec": "sc"}


class XliffDocument(XmlDocument):
    """An XLIFF file. Segments that already have a translation are kept unless `replace` is true."""

    def __init__(self, content: bytes, languages: DocumentLanguages, *, replace: bool = False) -> None:
        super().__init__(content, "XLIFF")
        is_2 = self.root.get("version", "").startswith("2")
        source_name, target_name = ("srcLang", "trgLang") if is_2 else ("source-language", "target-language")
        for element in [self.root] if is_2 else children(self.root, "file"):
            target_language = languages.target_of(element.get(source_name), element.get(target_name))
            if element.get(target_name) is None:
                element.set(target_name, target_language)
        translated = 0
        for unit in xml_tree.outermost(
            self.root, lambda element: local_name(element) == ("segment" if is_2 else "trans-unit")
        ):
            source, target = next(children(unit, "source"), None), next(children(unit, "target"), None)
            if source is None or _nearest(unit, "translate") == "no":
                continue
            if target is not None and not replace and _is_translated(unit, target, source):
                translated += 1
                continue
            segmented = None if is_2 else next(children(unit, "seg-source"), None)
            before = source if segmented is None else segmented
            if target is None:
                namespace = before.tag.rpartition("}")[0]
                target = before.makeelement(f"{namespace}}}target" if namespace else "target")
                xml_tree.insert_after(before, target)
            else:  # an existing target keeps its place and loses its content
                tail = target.tail
                target.clear()
                target.tail = tail
            if is_2:
                if space := source.get(f"{XML}space"):
                    target.set(f"{XML}space", space)
                unit.set("state", "translated")
                unit.attrib.pop("subState", None)
            else:
                target.set("state", "translated")
            if segmented is None:
                self._add(source, target)
                continue
            whole = xml_tree.read_element(segmented, _inline)
            xml_tree.fill_element(target, whole, whole.content)  # copies the content between the segments
            for source_segment, target_segment in zip(_segments(segmented), _segments(target), strict=True):
                self._add(source_segment, target_segment)
        if translated:
            self.notes.append(f"{translated:,} segments that are translated already stay (--retranslate replaces them)")

    def _add(self, source: "etree._Element", target: "etree._Element") -> None:
        """Adds the content of `source` as a unit whose translation is written to `target`."""
        self.add(xml_tree.read_element(source, _inline), target, wraps=_nearest(source, f"{XML}space") != "preserve")


def _is_translated(unit: "etree._Element", target: "etree._Element", source: "etree._Element") -> bool:
    """Returns whether a target is approved, or has content that is a translation instead of a copy of the source.

    A target whose state says that it still has to be translated does not count as a translation.
    """
    state = target.get("state") or unit.get("state")
    if unit.get("approved") == "yes" or state in ("final", "signed-off", "reviewed"):
        return True
    text = "".join(target.itertext()).strip()
    is_copy = state != "translated" and text == "".join(source.itertext()).strip()
    return bool(text or len(target)) and state not in _REPLACED_STATES and not is_copy


def _inline(element: "etree._Element") -> InlineTag:
    """Returns how to treat an inline element of XLIFF."""
    name = local_name(element)
    if element.get("translate") == "no" or element.get("mtype") in ("protected", "x-protected"):
        return InlineTag("code")
    if element.get("ctype") == "lb" or element.get("subType") == "xlf:lb":
        return InlineTag("break")
    tag = _TAGS.get(name, InlineTag("code"))
    if tag.kind not in ("open", "close"):
        return tag
    if element.get("isolated") == "yes":
        return InlineTag("code")
    pair = element.get("startRef") or element.get("rid") or element.get("id") or ""
    return tag._replace(name=f"{_OPENING.get(name, name)} {pair}")


def _segments(element: "etree._Element") -> "list[etree._Element]":
    """Returns the segments of a `seg-source` element or of its copy."""
    return xml_tree.outermost(element, lambda mark: local_name(mark) == "mrk" and mark.get("mtype") == "seg")


def _nearest(element: "etree._Element", attribute: str) -> str | None:
    """Returns the value of an attribute from an element or its nearest ancestor that has it; None if none has it."""
    values = (ancestor.get(attribute) for ancestor in [element, *element.iterancestors()])
    return next((value for value in values if value), None)
