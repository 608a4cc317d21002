"""XLIFF 1.2 and 2: fills the targets of segments."""

from typing import TYPE_CHECKING

from transduce.documents.document import DocumentLanguages
from transduce.documents.xml_tree import (
    XML,
    InlineTag,
    XmlDocument,
    children,
    fill_element,
    insert_after,
    local_name,
    outermost,
    read_element,
)

if TYPE_CHECKING:
    from lxml import etree

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


class XliffDocument(XmlDocument):
    """A file of XLIFF. Targets that are translated already stay, unless `replace`."""

    def __init__(self, content: bytes, languages: DocumentLanguages, *, replace: bool = False) -> None:
        super().__init__(content, "XLIFF")
        self._languages, self._replace = languages, replace
        kept = self._read_2() if self.root.get("version", "").startswith("2") else self._read_1()
        if kept:
            self.notes.append(f"{kept:,} segments that are translated already stay (--retranslate replaces them)")

    def _add(self, source: "etree._Element", target: "etree._Element") -> None:
        """Adds the content of `source` as a unit whose translation goes into `target`."""
        self.add(read_element(source, _inline), target, wraps=_nearest(source, f"{XML}space") != "preserve")

    def _read_1(self) -> int:
        """Collects the units of version 1.2; returns how many are translated already."""
        kept = 0
        for file in children(self.root, "file"):
            wanted = self._languages.target_of(file.get("source-language"), file.get("target-language"))
            if file.get("target-language") is None:
                file.set("target-language", wanted)
        for unit in outermost(self.root, lambda element: local_name(element) == "trans-unit"):
            source = next(children(unit, "source"), None)
            if source is None or _nearest(unit, "translate") == "no":
                continue
            target = next(children(unit, "target"), None)
            if target is not None and self._keeps(unit, target, source):
                kept += 1
                continue
            segmented = next(children(unit, "seg-source"), None)
            after = source if segmented is None else segmented
            target = _new_target(after, target)
            target.set("state", "translated")
            if segmented is None:
                self._add(source, target)
            else:
                # Each segment of `seg-source` is a unit; what is between segments is copied.
                whole = read_element(segmented, _inline)
                fill_element(target, whole, whole.content)
                for source_segment, target_segment in zip(_segments(segmented), _segments(target), strict=True):
                    self._add(source_segment, target_segment)
        return kept

    def _read_2(self) -> int:
        """Collects the segments of version 2; returns how many are translated already."""
        kept = 0
        wanted = self._languages.target_of(self.root.get("srcLang"), self.root.get("trgLang"))
        if self.root.get("trgLang") is None:
            self.root.set("trgLang", wanted)
        for segment in outermost(self.root, lambda element: local_name(element) == "segment"):
            source = next(children(segment, "source"), None)
            if source is None or _nearest(segment, "translate") == "no":
                continue
            target = next(children(segment, "target"), None)
            if target is not None and self._keeps(segment, target, source):
                kept += 1
                continue
            target = _new_target(source, target)
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


def _segments(element: "etree._Element") -> "list[etree._Element]":
    """Returns the segments of a `seg-source` or of its copy."""
    return outermost(element, lambda mark: local_name(mark) == "mrk" and mark.get("mtype") == "seg")


def _nearest(element: "etree._Element", attribute: str) -> str | None:
    """Returns the value of an attribute of an element, or of the nearest element around it that has one."""
    values = (ancestor.get(attribute) for ancestor in [element, *element.iterancestors()])
    return next((value for value in values if value), None)


def _new_target(before: "etree._Element", existing: "etree._Element | None") -> "etree._Element":
    """Returns an empty target after `before`, indented like it, in the place of an existing one."""
    if existing is not None:
        tail = existing.tail
        existing.clear()
        existing.tail = tail
        return existing
    namespace = before.tag.rpartition("}")[0]
    new = before.makeelement(f"{namespace}}}target" if namespace else "target")
    insert_after(before, new)
    return new
