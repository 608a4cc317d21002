"""Parses XML without loading entities or external files, and reads and writes the inline content of elements."""

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
    """Specifies how to treat an inline element.

    An element of kind `pair` encloses content that is translated. Two elements of the kinds `open` and `close` enclose
    such content between them if they have the same name. Elements of the kinds `code` and `break` are kept as they are.
    """

    kind: Literal["pair", "open", "close", "code", "break"]
    name: str = ""


XML = "{http://www.w3.org/XML/1998/namespace}"  # the namespace of `xml:space` and `xml:lang`
_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?<\?xml[^>]*\?>\s*")

# Limits on the number of namespaces that are in scope at an element, of which Word writes about 35, on the length of
# the name of a namespace, and on the number of attributes of an element.
MAX_NAMESPACES, MAX_NAME = 100, 1000
MAX_ATTRIBUTES = 256

XmlContent = PairedContent["etree._Element"]


def parse_xml(content: bytes, documents: str) -> "etree._ElementTree":
    """Parses an XML file of the kind `documents`, for example "DOCX", and returns its tree.

    Raises ValueError if the XML is damaged, if it declares entities, or if it has more namespaces or attributes than
    any ordinary program writes.
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
    # The numbers of namespaces and attributes are limited, because each copy of an element repeats them.
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
    """Returns the elements for which `is_unit` is true and that are not inside another such element.

    Valid files do not nest units. If a file did, its text would otherwise be translated once for each level.
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
    """The base class of XLIFF and TMX documents, whose units are read from elements and written to elements."""

    def __init__(self, content: bytes, name: str) -> None:
        """Parses the file. The name of its root element must be `name`, the name of the format, in lower case.

        Raises ValueError if the file is damaged, or if its root element has a different name.
        """
        super().__init__()
        self._original = content
        self._tree = parse_xml(content, name)
        self.root = self._tree.getroot()
        if local_name(self.root) != name.lower():
            raise ValueError(f"not {name}: the root is <{local_name(self.root)}>; choose another --format")
        self._targets: list[tuple[etree._Element, XmlContent]] = []  # the target and the source content of each unit

    def add(self, content: XmlContent, target: "etree._Element", *, wraps: bool) -> None:
        """Adds `content` as a unit whose translation is written to the element `target`.

        Content without letters is not translated but copied to `target`.
        """
        if has_letters(plain(content.content)):
            self.units.append(Unit(content.content, wraps=wraps))
            self._targets.append((target, content))
        else:
            fill_element(target, content, content.content)

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the file with the translations, in its original encoding and with its XML declaration."""
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
    """Returns the name of an element without its namespace; empty for comments and processing instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def children(element: "etree._Element", name: str) -> "Iterator[etree._Element]":
    """Yields the children of an element that have the local name `name`, in any namespace."""
    return (child for child in element if local_name(child) == name)


def read_element(element: "etree._Element", inline: Callable[["etree._Element"], InlineTag]) -> XmlContent:
    """Returns the inline content of an element. `inline` determines how each element inside it is treated."""
    items: list[str | FoundTag[etree._Element]] = []

    def collect(parent: "etree._Element", depth: int) -> None:
        """Appends the content of `parent` to `items`. Elements nested more than `depth` levels deep become codes."""
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
    """Replaces the content of an element with `content`, whose tags and codes are copied from `source`."""
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
            if is_pair:  # a copy of the element without its content
                child = original.makeelement(original.tag, dict(original.attrib), original.nsmap)
            else:
                child = copy.deepcopy(original)
            child.tail = None
            path[-1].append(child)
            if is_pair:
                path.append(child)
