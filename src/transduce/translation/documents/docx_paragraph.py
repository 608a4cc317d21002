"""Paragraphs of WordprocessingML: runs of text with their formatting, and what stands between them."""

import copy
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from transduce.translation.documents.paired_tags import FoundTag, PairedContent, pair_tags
from transduce.translation.documents.units import ClosingTag, Content, InlineCode

if TYPE_CHECKING:
    from lxml.etree import _Element

__all__ = ["ParagraphContent", "W", "fill_paragraph", "read_paragraph"]

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_NESTED = {f"{W}hyperlink", f"{W}ins", f"{W}smartTag", f"{W}moveTo"}  # elements whose runs are text
_BREAKS = {f"{W}br", f"{W}cr", f"{W}tab"}
_POINTS = {
    f"{W}{name}" for name in ("bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd", "softHyphen")
}
_IGNORED = {f"{W}proofErr", f"{W}lastRenderedPageBreak"}  # marks of the program, of no meaning for a translation


class FormattedText(NamedTuple):
    """Text of a run; `key` is its formatting as XML, the same for equal formatting."""

    text: str
    key: bytes
    formatting: "_Element | None"


class RunPart(NamedTuple):
    """A part of a run that is no text, and an empty run of the same formatting to put it into."""

    run: "_Element"
    part: "_Element"


class ParagraphContent(NamedTuple):
    """The content of a paragraph, and the formatting of its text outside of pairs, which most of its text has.

    The payload of a pair is the formatting of a run, or the element around runs; that of a code its elements.
    """

    paired: "PairedContent[list[RunPart | _Element]]"
    formatting: "_Element | None"


def read_paragraph(paragraph: "_Element") -> ParagraphContent:
    """Returns the content of a paragraph."""
    items = _merged(list(_grouped_fields(_items(paragraph))))
    sizes = Counter[bytes]()
    for item in items:
        if isinstance(item, FormattedText):
            sizes[item.key] += len(item.text)
    base = max(sizes, key=lambda key: sizes[key], default=b"")
    content: list[str | FoundTag[list[RunPart | _Element]]] = []
    formatting = None
    for number, item in enumerate(items):
        if isinstance(item, FoundTag):
            content.append(item)
        elif item.key == base:
            formatting = item.formatting
            content.append(item.text)
        else:
            payload: list[RunPart | _Element] = [] if item.formatting is None else [item.formatting]
            name = f"run {number}"
            content += [FoundTag("open", name, payload), item.text, FoundTag("close", name, payload)]
    return ParagraphContent(pair_tags(content), formatting)


def _items(parent: "_Element") -> "Iterator[FormattedText | FoundTag[list[RunPart | _Element]]]":
    """Yields text with its formatting, and tags and codes, of a paragraph or of an element in it."""
    for child in parent:
        if child.tag == f"{W}r":
            yield from _run_items(child)
        elif child.tag in _NESTED:
            name = f"element {id(child)}"
            yield FoundTag("open", name, [child], is_element=True)
            yield from _items(child)
            yield FoundTag("close", name, [child], is_element=True)
        elif child.tag not in (f"{W}pPr", *_IGNORED) and not (parent.tag != f"{W}p" and str(child.tag).endswith("Pr")):
            yield FoundTag("point" if child.tag in _POINTS else "code", "", [child])


def _run_items(run: "_Element") -> "Iterator[FormattedText | FoundTag[list[RunPart | _Element]]]":
    """Yields the texts of a run, and each other part of it as a code that is a run by itself."""
    from lxml import etree

    formatting = run.find(f"{W}rPr")
    key = b"" if formatting is None else etree.tostring(formatting, method="c14n", with_tail=False)
    for part in run:
        if part.tag == f"{W}t":
            yield FormattedText(part.text or "", key, formatting)
        elif part.tag == f"{W}noBreakHyphen":
            yield FormattedText("\u2011", key, formatting)
        elif part.tag != f"{W}rPr" and part.tag not in _IGNORED:
            single = run.makeelement(run.tag, dict(run.attrib))
            if formatting is not None:
                single.append(copy.deepcopy(formatting))
            kind: Literal["code", "break", "point"]
            kind = "break" if part.tag in _BREAKS else "point" if part.tag in _POINTS else "code"
            yield FoundTag(kind, str(part.tag), [RunPart(single, part)])


def _grouped_fields(
    items: "Iterator[FormattedText | FoundTag[list[RunPart | _Element]]]",
) -> "Iterator[FormattedText | FoundTag[list[RunPart | _Element]]]":
    """Makes one code of each complex field, from its first mark to its last; its result is not translated."""
    field: list[FormattedText | FoundTag[list[RunPart | _Element]]] = []
    depth = 0
    for item in items:
        depth = max(0, depth + {"begin": 1, "end": -1}.get(_field_mark(item), 0))  # an end may lack its beginning
        if depth == 0 and not field:
            yield item
            continue
        field.append(item)
        if depth == 0:
            yield from _as_code(field)
            field = []
    yield from field


def _field_mark(item: "FormattedText | FoundTag[list[RunPart | _Element]]") -> str:
    """Returns the type of a mark of a complex field; nothing for other items."""
    if isinstance(item, FoundTag) and item.name == f"{W}fldChar" and isinstance(item.payload[0], RunPart):
        return item.payload[0].part.get(f"{W}fldCharType") or ""
    return ""


def _as_code(
    field: "list[FormattedText | FoundTag[list[RunPart | _Element]]]",
) -> "list[FormattedText | FoundTag[list[RunPart | _Element]]]":
    """Returns the items of a field as one code, or as they are where elements with runs begin within it."""
    elements: list[RunPart | _Element] = []
    for item in field:
        if isinstance(item, FormattedText):
            elements.append(_text_run(item.text, item.formatting))
        elif item.kind in ("code", "break", "point"):
            elements += item.payload
        else:
            return field
    return [FoundTag("code", "", elements)]


def _merged(
    items: "list[FormattedText | FoundTag[list[RunPart | _Element]]]",
) -> "list[FormattedText | FoundTag[list[RunPart | _Element]]]":
    """Joins adjacent texts of equal formatting, which the program has cut for reasons of its own."""
    merged: list[FormattedText | FoundTag[list[RunPart | _Element]]] = []
    present = (item for item in items if not isinstance(item, FormattedText) or item.text)
    for key, group in groupby(present, lambda item: item.key if isinstance(item, FormattedText) else None):
        first, *others = group
        if key is None or not isinstance(first, FormattedText):
            merged += [first, *others]
        else:
            texts = [other.text for other in others if isinstance(other, FormattedText)]
            merged.append(first._replace(text="".join([first.text, *texts])))
    return merged


def fill_paragraph(paragraph: "_Element", source: ParagraphContent, content: Content) -> None:
    """Replaces the content of a paragraph; its properties stay."""
    for child in list(paragraph):
        if child.tag != f"{W}pPr":
            paragraph.remove(child)
    parents, formats = [paragraph], [source.formatting]
    payloads = source.paired.payloads
    for item in content:
        if isinstance(item, str):
            parents[-1].append(_text_run(item, formats[-1], parents[-1]))
        elif isinstance(item, InlineCode):
            for element in payloads[item]:
                _append(parents[-1], element)
        elif isinstance(item, ClosingTag):
            parents.pop()
            formats.pop()
        else:
            _open(parents, formats, payloads[item])


def _open(parents: "list[_Element]", formats: "list[_Element | None]", payload: "list[RunPart | _Element]") -> None:
    """Begins a pair: an element around runs, or other formatting."""
    element = payload[0] if payload else None
    assert not isinstance(element, RunPart)
    if element is None or element.tag == f"{W}rPr":
        parents.append(parents[-1])
        formats.append(element)
        return
    new = element.makeelement(element.tag, dict(element.attrib))
    parents[-1].append(new)
    parents.append(new)
    formats.append(formats[-1])


def _append(parent: "_Element", element: "RunPart | _Element") -> None:
    """Moves an element of a code to the end of a parent."""
    if isinstance(element, RunPart):
        element.run.append(element.part)
        element = element.run
    element.tail = None
    parent.append(element)


def _text_run(text: str, formatting: "_Element | None", parent: "_Element | None" = None) -> "_Element":
    """Returns a run of text."""
    from lxml import etree

    run = etree.Element(f"{W}r") if parent is None else parent.makeelement(f"{W}r")
    if formatting is not None:
        run.append(copy.deepcopy(formatting))
    node = etree.SubElement(run, f"{W}t", {SPACE: "preserve"})
    node.text = text
    return run
