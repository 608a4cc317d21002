"""Reads XML without entities, document types or network access, and reads and writes the inline content of elements."""

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from transduce.documents.document import (
    ClosingTag,
    Content,
    Document,
    OpeningTag,
    Unit,
    has_letters,
    import_library,
    plain,
)
from transduce.documents.inline_tags import MAX_DEPTH, FoundTag, PairedContent, pair_tags

if TYPE_CHECKING:
    from lxml import etree


class InlineTag(NamedTuple):
    """The way to treat an inline element.

    A `pair` has content that is translated; `open` and `close` share a name; `code` and `break` are kept as they are.
    """

    kind: Literal["pair", "open", "close", "code", "break"]
    name: str = ""


XML = "{http://www.w3.org/XML/1998/namespace}"  # of `xml:space` and `xml:lang`
_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml[^>]*\?>\s*")

MAX_NAMESPACES, MAX_NAME = 100, 1000  # in scope at one place of a file: Word writes about 35
MAX_ATTRIBUTES = 256  # of an element

XmlContent = PairedContent["etree._Element"]


def parse_xml(content: bytes, documents: str) -> "etree._ElementTree":
    """Parses XML; raises ValueError if it is damaged, declares entities, or has more namespaces or attributes than
    programs write.
    """
    etree = import_library("lxml.etree", documents)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_blank_text=False,
        strip_cdata=False,
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise ValueError(f"damaged XML: {error}; repair the file") from None
    tree = root.getroottree()
    # More namespaces or attributes than programs write are refused, because copies of elements repeat them.
    count = 0
    for event, namespace in etree.iterwalk(root, events=("start-ns", "end-ns")):
        count += 1 if event == "start-ns" else -1
        if count > MAX_NAMESPACES or (namespace and len(namespace[1]) > MAX_NAME):
            raise ValueError(
                f"damaged XML: an element has more than {MAX_NAMESPACES} namespaces, or one with a name of more than "
                f"{MAX_NAME} characters; remove those that it does not need"
            )
    if root.xpath(f"boolean(/descendant-or-self::*[@*[{MAX_ATTRIBUTES + 1}]])"):
        raise ValueError(f"damaged XML: an element has more than {MAX_ATTRIBUTES} attributes; repair the file")
    dtd = tree.docinfo.internalDTD
    if dtd is not None and any(True for _ in dtd.iterentities()):
        raise ValueError("the XML declares entities, which are not read; replace them by their text")
    return tree


def outermost(element: "etree._Element", is_unit: Callable[["etree._Element"], bool]) -> "list[etree._Element]":
    """Returns the elements of a kind that are not inside another element of that kind.

    Formats do not nest units. If a file did, its text would otherwise be translated once for each level.
    """
    from lxml import etree

    found = []
    walk = etree.iterwalk(element, events=("start",))
    for _, child in walk:
        if is_unit(child):
            found.append(child)
            walk.skip_subtree()
    return found


class XmlDocument(Document):
    """The base class of XLIFF and TMX: an XML file whose units are elements and whose translations fill elements."""

    def __init__(self, content: bytes, name: str) -> None:
        """Raises ValueError if the file is damaged, or is not of the format `name`, which is also its root."""
        super().__init__()
        self._original = content
        self._tree = parse_xml(content, name)
        self.root = self._tree.getroot()
        if local_name(self.root) != name.lower():
            raise ValueError(f"not {name}: the root is <{local_name(self.root)}>; choose another --format")
        self._targets: list[tuple[etree._Element, XmlContent]] = []  # target of each unit, and content of its source

    def add(self, content: XmlContent, target: "etree._Element", *, wraps: bool) -> None:
        """Adds `content` as a unit whose translation goes into `target`; content without letters is copied there."""
        if has_letters(plain(content.content)):
            self.units.append(Unit(content.content, wraps=wraps))
            self._targets.append((target, content))
        else:
            fill_element(target, content, content.content)

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the file with the translations, in its encoding and with its declaration."""
        from lxml import etree

        for (target, source), content in zip(self._targets, translations, strict=True):
            fill_element(target, source, content)
        encoding = self._tree.docinfo.encoding or "UTF-8"
        declaration = _DECLARATION.match(self._original)
        wide = encoding.upper().startswith(("UTF-16", "UTF-32"))
        output: bytes = etree.tostring(self._tree, encoding=encoding, xml_declaration=wide)
        if wide:
            return output
        end = self._original[len(self._original.rstrip()) :]
        return (declaration.group() if declaration else b"") + output.rstrip() + end


def insert_after(before: "etree._Element", new: "etree._Element") -> None:
    """Inserts the element `new` after `before`, with the same indentation."""
    previous, parent, tail = before.getprevious(), before.getparent(), before.tail
    assert parent is not None
    before.addnext(new)
    new.tail = tail
    before.tail = parent.text if previous is None else previous.tail


def local_name(element: "etree._Element") -> str:
    """Name of an element without its namespace; an empty string for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: "etree._Element", name: str) -> "Iterator[etree._Element]":
    """Yields the children with a name, in any namespace."""
    return (child for child in element if local_name(child) == name)


def read_element(element: "etree._Element", inline: Callable[["etree._Element"], InlineTag]) -> XmlContent:
    """Content of an element; `inline` classifies its children."""
    items: list[str | FoundTag[etree._Element]] = []

    def collect(parent: "etree._Element", depth: int) -> None:
        """Appends the content of an element; elements nested more than `depth` deep are codes."""
        items.append(parent.text or "")
        for child in parent:
            tag = inline(child)
            if tag.kind == "pair" and depth:
                name = f"element {len(items)}"
                items.append(FoundTag("open", name, child, is_element=True))
                collect(child, depth - 1)
                items.append(FoundTag("close", name, child, is_element=True))
            else:
                items.append(FoundTag("code" if tag.kind == "pair" else tag.kind, tag.name, child))
            items.append(child.tail or "")

    collect(element, MAX_DEPTH)
    return pair_tags(items)


def fill_element(element: "etree._Element", source: XmlContent, content: Content) -> None:
    """Replaces the content of an element by `content`; its tags are copied from `source`."""
    element.text = None
    for child in list(element):
        element.remove(child)
    path = [element]
    for item in content:
        if isinstance(item, str):
            last = next(path[-1].iterchildren(reversed=True), None)  # len(path[-1]) would count them all
            if last is not None:
                last.tail = (last.tail or "") + item
            else:
                path[-1].text = (path[-1].text or "") + item
        elif isinstance(item, ClosingTag) and source.payloads[item] is source.payloads[OpeningTag(item.number)]:
            path.pop()
        else:
            original = source.payloads[item]
            is_pair = isinstance(item, OpeningTag) and source.payloads[ClosingTag(item.number)] is original
            if is_pair:  # without its content
                child = original.makeelement(original.tag, dict(original.attrib), original.nsmap)
            else:
                child = copy.deepcopy(original)
            child.tail = None
            path[-1].append(child)
            if is_pair:
                path.append(child)
