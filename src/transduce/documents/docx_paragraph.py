"""Paragraphs of WordprocessingML: runs of text with their formatting, and what stands between them."""

import copy
from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from transduce.documents.paired_tags import FoundTag, PairedContent, pair_tags
from transduce.documents.units import ClosingTag, Content, InlineCode

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
ELEMENT_SIZE = 40  # in characters, as `RunFormat.size` counts
_IGNORED = {f"{W}proofErr", f"{W}lastRenderedPageBreak"}  # marks of the program, of no meaning for a translation


class RunFormat(NamedTuple):
    """The formatting of a run: its element, a key that equal formatting has, and the size of a copy.

    The size is in characters, of which an element has `ELEMENT_SIZE` besides its attributes and its text.
    """

    element: "_Element | None" = None
    key: Hashable = ()
    size: int = 0


class FormattedText(NamedTuple):
    """Text of a run."""

    text: str
    format: RunFormat


class RunPart(NamedTuple):
    """A part of a run that is no text; it becomes a run by itself, with a copy of the formatting."""

    run: "_Element"
    part: "_Element"
    format: RunFormat


class ParagraphContent(NamedTuple):
    """The content of a paragraph, and the formatting of its text outside of pairs, which most of its text has.

    The payload of a pair is the formatting of a run, or the element around runs; that of a code its elements.
    `copied_size` bounds the size of all copies of formatting that a translation needs.
    """

    paired: "PairedContent[list[FormattedText | RunPart | _Element]]"
    formatting: "_Element | None"
    copied_size: int


def read_paragraph(paragraph: "_Element") -> ParagraphContent:
    """Returns the content of a paragraph."""
    items = _merged(list(_grouped_fields(_items(paragraph))))
    sizes = Counter[Hashable]()
    for item in items:
        if isinstance(item, FormattedText):
            sizes[item.format.key] += len(item.text)
    base = max(sizes, key=lambda key: sizes[key], default=())
    content: list[str | FoundTag[list[FormattedText | RunPart | _Element]]] = []
    formatting = RunFormat()
    copied_size = 0
    for number, item in enumerate(items):
        if isinstance(item, FoundTag):
            content.append(item)
            copied_size += sum(part.format.size for part in item.payload if isinstance(part, FormattedText | RunPart))
            continue
        copied_size += item.format.size
        if item.format.key == base:
            formatting = item.format
            content.append(item.text)
        else:
            element = item.format.element
            payload: list[FormattedText | RunPart | _Element] = [] if element is None else [element]
            name = f"run {number}"
            content += [FoundTag("open", name, payload), item.text, FoundTag("close", name, payload)]
    # A translation may have a text of the base formatting between any two tags.
    return ParagraphContent(pair_tags(content), formatting.element, copied_size + len(content) * formatting.size)


def _items(parent: "_Element") -> "Iterator[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]":
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


def _run_items(run: "_Element") -> "Iterator[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]":
    """Yields the texts of a run, and each other part of it as a code that is a run by itself."""
    formatting = _run_format(run)
    for part in run:
        if part.tag == f"{W}t":
            yield FormattedText(part.text or "", formatting)
        elif part.tag == f"{W}noBreakHyphen":
            yield FormattedText("\u2011", formatting)
        elif part.tag != f"{W}rPr" and part.tag not in _IGNORED:
            kind: Literal["code", "break", "point"]
            kind = "break" if part.tag in _BREAKS else "point" if part.tag in _POINTS else "code"
            yield FoundTag(kind, str(part.tag), [RunPart(run, part, formatting)])


def _run_format(run: "_Element") -> RunFormat:
    """Returns the formatting of a run."""
    element = run.find(f"{W}rPr")
    attributes = sum(map(len, [*run.keys(), *run.values()]))
    if element is None:
        return RunFormat(size=ELEMENT_SIZE + attributes)
    key, size = _key_and_size(element)
    return RunFormat(element, key, size + ELEMENT_SIZE + attributes)


def _key_and_size(element: "_Element") -> tuple[Hashable, int]:
    """Returns the content of an element as a key, in which prefixes do not matter, and its size."""
    children = [(*_key_and_size(child), child.tail) for child in element]
    attributes = tuple(sorted(element.items()))
    size = sum(size + len(tail or "") for _, size, tail in children)
    size += ELEMENT_SIZE + sum(len(name) + len(value) for name, value in attributes) + len(element.text or "")
    return (str(element.tag), attributes, element.text, *((key, tail) for key, _, tail in children)), size


def _grouped_fields(
    items: "Iterator[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]",
) -> "Iterator[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]":
    """Makes one code of each complex field, from its first mark to its last; its result is not translated."""
    field: list[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]] = []
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


def _field_mark(item: "FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]") -> str:
    """Returns the type of a mark of a complex field; nothing for other items."""
    if isinstance(item, FoundTag) and item.name == f"{W}fldChar" and isinstance(item.payload[0], RunPart):
        return item.payload[0].part.get(f"{W}fldCharType") or ""
    return ""


def _as_code(
    field: "list[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]",
) -> "list[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]":
    """Returns the items of a field as one code, or as they are where elements with runs begin within it."""
    elements: list[FormattedText | RunPart | _Element] = []
    for item in field:
        if isinstance(item, FormattedText):
            elements.append(item)
        elif item.kind in ("code", "break", "point"):
            elements += item.payload
        else:
            return field
    return [FoundTag("code", "", elements)]


def _merged(
    items: "list[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]",
) -> "list[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]]":
    """Joins adjacent texts of equal formatting, which the program has cut for reasons of its own."""
    merged: list[FormattedText | FoundTag[list[FormattedText | RunPart | _Element]]] = []
    present = (item for item in items if not isinstance(item, FormattedText) or item.text)
    for key, group in groupby(present, lambda item: item.format.key if isinstance(item, FormattedText) else None):
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


def _open(
    parents: "list[_Element]", formats: "list[_Element | None]", payload: "list[FormattedText | RunPart | _Element]"
) -> None:
    """Begins a pair: an element around runs, or other formatting."""
    element = payload[0] if payload else None
    assert not isinstance(element, FormattedText | RunPart)
    if element is None or element.tag == f"{W}rPr":
        parents.append(parents[-1])
        formats.append(element)
        return
    new = element.makeelement(element.tag, dict(element.attrib))
    parents[-1].append(new)
    parents.append(new)
    formats.append(formats[-1])


def _append(parent: "_Element", element: "FormattedText | RunPart | _Element") -> None:
    """Moves an element of a code to the end of a parent."""
    if isinstance(element, FormattedText):
        element = _text_run(element.text, element.format.element)
    elif isinstance(element, RunPart):
        single = element.run.makeelement(element.run.tag, dict(element.run.attrib))
        if element.format.element is not None:
            single.append(copy.deepcopy(element.format.element))
        single.append(element.part)
        element = single
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
