"""XLIFF 1.2 and 2: fills the targets of segments."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from transduce.documents.languages import DocumentLanguages
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

__all__ = ["XliffDocument"]

XML = "{http://www.w3.org/XML/1998/namespace}"
_REPLACED_STATES = {"new", "needs-translation", "needs-adaptation", "needs-l10n", "initial"}
_TAGS = {  # both versions; `rid` or `id` names the pair
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


class XliffDocument:
    """A file of XLIFF. Targets that are translated already stay, unless `replace`."""

    def __init__(self, content: bytes, languages: DocumentLanguages, *, replace: bool = False) -> None:
        self._original, self._languages, self._replace = content, languages, replace
        self._tree = parse_xml(content, "XLIFF")
        self.units: list[Unit] = []
        self.notes: list[str] = []
        self._sources: list[tuple[etree._Element, XmlContent]] = []  # the element of a target, and the source
        root = self._tree.getroot()
        if local_name(root) != "xliff":
            raise ValueError(f"not XLIFF: the root is <{local_name(root)}>; choose another --format")
        kept = self._read_2(root) if root.get("version", "").startswith("2") else self._read_1(root)
        if kept:
            self.notes.append(f"{kept:,} segments that are translated already stay (--retranslate replaces them)")

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the file with the translations in its targets."""
        for (target, source), content in zip(self._sources, translations, strict=True):
            fill_element(target, source, content)
        return xml_bytes(self._tree, self._original)

    def _add(self, source: "etree._Element", target: "etree._Element") -> None:
        """Adds the content of `source` as a unit whose translation goes into `target`."""
        content = read_element(source, _inline)
        if has_letters(plain(content.content)):
            self.units.append(Unit(content.content, wraps=_wraps(source)))
            self._sources.append((target, content))
        else:
            fill_element(target, content, content.content)

    def _read_1(self, root: "etree._Element") -> int:
        """Collects the units of version 1.2; returns how many are translated already."""
        kept = 0
        for file in _children(root, "file"):
            wanted = self._languages.target_of(file.get("source-language"), file.get("target-language"))
            if file.get("target-language") is None:
                file.set("target-language", wanted)
        for unit in outermost(root, lambda element: local_name(element) == "trans-unit"):
            source = next(_children(unit, "source"), None)
            if source is None or _is_protected(unit):
                continue
            target = next(_children(unit, "target"), None)
            if target is not None and self._keeps(unit, target, source):
                kept += 1
                continue
            segmented = next(_children(unit, "seg-source"), None)
            after = source if segmented is None else segmented
            target = _new_sibling(after, target, "target")
            target.set("state", "translated")
            if segmented is None:
                self._add(source, target)
            else:
                self._add_segments(segmented, target)
        return kept

    def _add_segments(self, segmented: "etree._Element", target: "etree._Element") -> None:
        """Adds each segment of `seg-source` as a unit; what is between segments is copied."""
        whole = read_element(segmented, _inline)
        fill_element(target, whole, whole.content)
        pairs = zip(_segments(segmented), _segments(target), strict=True)
        for source_segment, target_segment in pairs:
            self._add(source_segment, target_segment)

    def _read_2(self, root: "etree._Element") -> int:
        """Collects the segments of version 2; returns how many are translated already."""
        kept = 0
        wanted = self._languages.target_of(root.get("srcLang"), root.get("trgLang"))
        if root.get("trgLang") is None:
            root.set("trgLang", wanted)
        for segment in outermost(root, lambda element: local_name(element) == "segment"):
            source = next(_children(segment, "source"), None)
            if source is None or _is_protected(segment):
                continue
            target = next(_children(segment, "target"), None)
            if target is not None and self._keeps(segment, target, source):
                kept += 1
                continue
            target = _new_sibling(source, target, "target")
            if space := source.get(f"{XML}space"):
                target.set(f"{XML}space", space)
            segment.set("state", "translated")
            segment.attrib.pop("subState", None)
            self._add(source, target)
        return kept

    def _keeps(self, unit: "etree._Element", target: "etree._Element", source: "etree._Element") -> bool:
        """Returns whether a target stays: it is approved, or has text that is no copy of the source."""
        if self._replace:
            return False
        state = target.get("state") or unit.get("state")
        if unit.get("approved") == "yes" or state in ("final", "signed-off", "reviewed"):
            return True
        text = "".join(target.itertext()).strip()
        is_copy = state != "translated" and text == "".join(source.itertext()).strip()
        return bool(text or len(target)) and state not in _REPLACED_STATES and not is_copy


def _inline(element: "etree._Element") -> InlineTag:
    """Returns what an inline element of XLIFF is."""
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


def _children(element: "etree._Element", name: str) -> "Iterator[etree._Element]":
    """Yields the children with a name, whatever their namespace."""
    return (child for child in element if local_name(child) == name)


def _segments(element: "etree._Element") -> "list[etree._Element]":
    """Returns the segments of a `seg-source` or of its copy."""
    return outermost(element, lambda mark: local_name(mark) == "mrk" and mark.get("mtype") == "seg")


def _is_protected(element: "etree._Element") -> bool:
    """Returns whether the nearest `translate` of an element or of what encloses it is no."""
    values = (ancestor.get("translate") for ancestor in [element, *element.iterancestors()])
    return next((value for value in values if value), "yes") == "no"


def _wraps(element: "etree._Element") -> bool:
    """Returns whether line ends are spaces: no `xml:space="preserve"` is around."""
    values = (ancestor.get(f"{XML}space") for ancestor in [element, *element.iterancestors()])
    return next((value for value in values if value), "default") != "preserve"


def _new_sibling(before: "etree._Element", existing: "etree._Element | None", name: str) -> "etree._Element":
    """Returns an empty element after `before`, indented like it, in the place of an existing one."""
    if existing is not None:
        tail = existing.tail
        existing.clear()
        existing.tail = tail
        return existing
    namespace = before.tag.rpartition("}")[0]
    new = before.makeelement(f"{namespace}}}{name}" if namespace else name)
    insert_after(before, new)
    return new
