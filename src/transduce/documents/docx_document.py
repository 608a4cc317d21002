"""Reads and writes DOCX documents.

The units are the paragraphs of the body, headers, footers, footnotes and endnotes. Inline tags represent the formatting
of runs, so that it follows the words it belongs to.
"""

import copy
import io
import shutil
import zipfile
import zlib
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from transduce.documents.document import ClosingTag, Content, Document, InlineCode, Unit, has_letters, plain
from transduce.documents.inline_tags import FoundTag, PairedContent, pair_tags
from transduce.documents.xml_tree import XML, parse_xml

if TYPE_CHECKING:
    from lxml import etree
    from lxml.etree import _Element

    Payload: TypeAlias = "list[FormattedText | RunPart | _Element]"  # the payload of a tag or a code in a paragraph
    ParagraphItem: TypeAlias = "FormattedText | FoundTag[Payload]"


MAX_BYTES = 1 << 28  # total size of the unpacked files in the archive
MAX_FILES = 10_000
CHUNK_BYTES = 1 << 16
# Total size of the files that are parsed. With this limit, their trees take at most about 1.3 GB of memory: in a tree,
# an attribute of 5 bytes, ` a=""`, takes 216 bytes, and an element of 4 bytes, `<a/>`, takes 120. Each element of a
# paragraph takes another 470 bytes, which is 1 GB for MAX_TAGS elements.
MAX_XML_BYTES = 1 << 25
MAX_TAGS = 1 << 21  # including entity references
# A translation repeats the formatting of runs. These limits apply to the total size of the copies, in characters: at
# most MAX_COPIED, and at most COPIES for each byte of the parsed files. FREELY_COPIED characters are always allowed. An
# element of 4 bytes counts as 40 characters and takes about 150 bytes of memory.
MAX_COPIED, FREELY_COPIED, COPIES = 1 << 27, 1 << 22, 16
_PARTS = ("document", "header", "footer", "footnotes", "endnotes")
# The compression methods that Word uses. zipfile limits the memory for unpacking only with these.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class DocxDocument(Document):
    """A Word document. Files of the archive that are not parsed are kept unchanged."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = content
        parts = _read_archive(content)
        self._paragraphs: list[tuple[etree._Element, ParagraphContent]] = []
        self._trees: dict[str, etree._ElementTree] = {}
        if "word/document.xml" not in parts:
            raise ValueError("not DOCX: the archive has no word/document.xml; choose another --format")
        if (tags := sum(part.count(b"<") + part.count(b"&") for part in parts.values())) > MAX_TAGS:
            raise ValueError(f"the DOCX has {tags:,} tags, more than {MAX_TAGS:,}; split the document")
        for name, part in parts.items():
            self._trees[name] = parse_xml(part, "DOCX")
            for paragraph in self._trees[name].iter(f"{W}p"):
                source = read_paragraph(paragraph)
                if has_letters(plain(source.paired.content)):
                    self.units.append(Unit(source.paired.content))
                    self._paragraphs.append((paragraph, source))
        copied = sum(source.copied_size for _, source in self._paragraphs)
        if copied > min(MAX_COPIED, max(FREELY_COPIED, COPIES * sum(map(len, parts.values())))):
            raise ValueError(
                f"the translation of the DOCX would repeat its formatting in {copied:,} characters, because parts of "
                "runs share much formatting; save the document again, or split it"
            )

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the archive with the translations in their paragraphs.

        Files of the archive that are not parsed are copied unchanged.
        """
        from lxml import etree

        for (paragraph, source), content in zip(self._paragraphs, translations, strict=True):
            if content != source.paired.content:
                fill_paragraph(paragraph, source, content)
        output = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self._content)) as original, zipfile.ZipFile(output, "w") as archive:
            for entry in original.infolist():
                tree = self._trees.get(entry.filename)
                if tree is not None:
                    changed = etree.tostring(tree, encoding="UTF-8", xml_declaration=True, standalone=True)
                    archive.writestr(entry, changed, entry.compress_type)
                    continue
                # The file is copied in chunks, because a few kilobytes may unpack to a quarter of a gigabyte.
                with original.open(entry) as file, archive.open(copy.copy(entry), "w") as copied:
                    shutil.copyfileobj(file, copied, CHUNK_BYTES)
        return output.getvalue()


def _is_parsed(entry: zipfile.ZipInfo) -> bool:
    """Returns whether a file of the archive is one of those that contain text to translate."""
    folder, _, name = entry.filename.rpartition("/")
    return folder == "word" and name.startswith(_PARTS) and name.endswith(".xml")


def _read_archive(content: bytes) -> dict[str, bytes]:
    """Returns the content of the files to parse, by name, and verifies the checksums of all files in the archive.

    Raises ValueError if the archive is damaged or encrypted, if it has too many files or files that are too large, if
    two files have the same name, or if a file is compressed with a method that Word does not use.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > MAX_BYTES or len(entries) > MAX_FILES:
                raise ValueError(
                    f"the DOCX unpacks to {size:,} bytes in {len(entries):,} files, more than {MAX_BYTES:,} bytes or "
                    f"{MAX_FILES:,} files; split the document"
                )
            parsed_size = sum(entry.file_size for entry in entries if _is_parsed(entry))
            if parsed_size > MAX_XML_BYTES:
                raise ValueError(
                    f"the DOCX unpacks to {parsed_size:,} bytes of text with its markup, more than {MAX_XML_BYTES:,}; "
                    "split the document"
                )
            if len({entry.filename for entry in entries}) < len(entries):
                raise ValueError("damaged DOCX: two files of the archive have one name; save it again")
            parsed = {}
            for entry in entries:
                if entry.compress_type not in _METHODS:
                    raise ValueError(
                        f"damaged DOCX: {entry.filename} is compressed by method {entry.compress_type} of ZIP, which "
                        "Word does not write; save the document again"
                    )
            for entry in sorted(entries, key=_is_parsed):
                with archive.open(entry) as file:
                    if _is_parsed(entry):  # without a size, zipfile would unpack up to 1 GiB before truncating
                        parsed[entry.filename] = file.read(entry.file_size)
                        continue
                    while file.read(CHUNK_BYTES):  # zipfile verifies the checksum at the end of the file
                        pass
            return parsed
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ValueError(f"damaged DOCX: {error}; save it again") from None


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_NESTED = {f"{W}hyperlink", f"{W}ins", f"{W}smartTag", f"{W}moveTo"}  # elements whose runs belong to the text
_BREAKS = {f"{W}br", f"{W}cr", f"{W}tab"}
_POINTS = {
    f"{W}{name}" for name in ("bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd", "softHyphen")
}
ELEMENT_SIZE = 40  # characters that `RunFormat.size` counts for an element
_IGNORED = {f"{W}proofErr", f"{W}lastRenderedPageBreak"}  # marks of the word processor that a translation can omit


class RunFormat(NamedTuple):
    """The formatting of a run.

    `element` is the `w:rPr` element, or None if the run has none. Runs with equal formatting have equal keys. `size` is
    the size of an empty run with this formatting in characters: each element counts as `ELEMENT_SIZE` characters plus
    the characters of its attributes and its text.
    """

    element: "_Element | None" = None
    key: Hashable = ()
    size: int = 0


class FormattedText(NamedTuple):
    """Text in a run, with the formatting of the run."""

    text: str
    format: RunFormat


class RunPart(NamedTuple):
    """A part of a run that is not text, such as a tab. It is written as a separate run with the same formatting."""

    run: "_Element"
    part: "_Element"
    format: RunFormat


class ParagraphContent(NamedTuple):
    """The content of a paragraph in a form that can be translated.

    `formatting` is the base formatting, which most of the text has. Text with the base formatting needs no tags. All
    other text is inside a pair, whose payload is the formatting of that text. A pair can also represent an element
    around runs, such as a hyperlink. In this case, its payload is that element. The payload of a code is the list of
    its elements. `copied_size` is an upper bound on the total size of the copies of formatting in a translation.
    """

    paired: "PairedContent[Payload]"
    formatting: "_Element | None"
    copied_size: int


def read_paragraph(paragraph: "_Element") -> ParagraphContent:
    """Reads a paragraph. The formatting of most of its text becomes the base, and other formatting becomes pairs."""
    items = _merged(list(_grouped_fields(_items(paragraph))))
    sizes = Counter[Hashable]()
    for item in items:
        if isinstance(item, FormattedText):
            sizes[item.format.key] += len(item.text)
    base = max(sizes, key=lambda key: sizes[key], default=())
    content: list[str | FoundTag[Payload]] = []
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
            payload: Payload = [] if element is None else [element]
            name = f"run {number}"
            content += [FoundTag("open", name, payload), item.text, FoundTag("close", name, payload)]
    # A translation may have text in the base formatting between any two tags.
    return ParagraphContent(pair_tags(content), formatting.element, copied_size + len(content) * formatting.size)


def _items(parent: "_Element") -> "Iterator[ParagraphItem]":
    """Yields the content of a paragraph, or of an element inside it: formatted text, tags and codes."""
    for child in parent:
        if child.tag == f"{W}r":
            element = child.find(f"{W}rPr")
            key, size = ((), 0) if element is None else _key_and_size(element)
            size += ELEMENT_SIZE + sum(map(len, [*child.keys(), *child.values()]))
            formatting = RunFormat(element, key, size)
            for part in child:  # every part that is not text becomes a code, which is written as a separate run
                if part.tag == f"{W}t":
                    yield FormattedText(part.text or "", formatting)
                elif part.tag == f"{W}noBreakHyphen":
                    yield FormattedText("\u2011", formatting)
                elif part.tag != f"{W}rPr" and part.tag not in _IGNORED:
                    kind: Literal["code", "break", "point"]
                    kind = "break" if part.tag in _BREAKS else "point" if part.tag in _POINTS else "code"
                    yield FoundTag(kind, str(part.tag), [RunPart(child, part, formatting)])
        elif child.tag in _NESTED:
            name = f"element {id(child)}"
            yield FoundTag("open", name, [child], is_element=True)
            yield from _items(child)
            yield FoundTag("close", name, [child], is_element=True)
        elif child.tag not in (f"{W}pPr", *_IGNORED) and not (parent.tag != f"{W}p" and str(child.tag).endswith("Pr")):
            yield FoundTag("point" if child.tag in _POINTS else "code", "", [child])


def _key_and_size(element: "_Element") -> tuple[Hashable, int]:
    """Returns a key for the content of an element, and the size of the element in characters.

    Elements that differ only in their namespace prefixes have the same key.
    """
    children = [(*_key_and_size(child), child.tail) for child in element]
    attributes = tuple(sorted(element.items()))
    size = sum(size + len(tail or "") for _, size, tail in children)
    size += ELEMENT_SIZE + sum(len(name) + len(value) for name, value in attributes) + len(element.text or "")
    return (str(element.tag), attributes, element.text, *((key, tail) for key, _, tail in children)), size


def _grouped_fields(items: "Iterator[ParagraphItem]") -> "Iterator[ParagraphItem]":
    """Replaces each complex field, from its begin mark to its end mark, with one code, so that it is not translated.

    A field is left as it is if it contains the beginning or the end of an element around runs.
    """
    field: list[ParagraphItem] = []
    depth = 0
    for item in items:
        if isinstance(item, FoundTag) and item.name == f"{W}fldChar" and isinstance(item.payload[0], RunPart):
            mark = item.payload[0].part.get(f"{W}fldCharType") or ""
            depth = max(0, depth + {"begin": 1, "end": -1}.get(mark, 0))  # an end mark may have no begin mark
        if depth == 0 and not field:
            yield item
            continue
        field.append(item)
        if depth:
            continue
        if any(isinstance(part, FoundTag) and part.kind in ("open", "close") for part in field):
            yield from field  # an element around runs begins or ends within the field
        else:
            elements: Payload = []
            for part in field:
                elements += [part] if isinstance(part, FormattedText) else part.payload
            yield FoundTag("code", "", elements)
        field = []
    yield from field


def _merged(items: "list[ParagraphItem]") -> "list[ParagraphItem]":
    """Joins adjacent texts that have equal formatting. Word processors often split a text into several runs."""
    merged: list[ParagraphItem] = []
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
    """Replaces the content of a paragraph with `content`, and keeps the properties of the paragraph.

    `source` provides the formatting and the elements for the tags and codes of `content`.
    """
    for child in list(paragraph):
        if child.tag != f"{W}pPr":
            paragraph.remove(child)
    parents, formats = [paragraph], [source.formatting]
    payloads = source.paired.payloads
    for item in content:
        if isinstance(item, str):
            parents[-1].append(_text_run(item, formats[-1], parents[-1]))
        elif isinstance(item, InlineCode):
            for element in payloads[item]:  # moved to the end of the parent
                if isinstance(element, FormattedText):
                    element = _text_run(element.text, element.format.element)
                elif isinstance(element, RunPart):
                    single = element.run.makeelement(element.run.tag, dict(element.run.attrib))
                    if element.format.element is not None:
                        single.append(copy.deepcopy(element.format.element))
                    single.append(element.part)
                    element = single
                element.tail = None
                parents[-1].append(element)
        elif isinstance(item, ClosingTag):
            parents.pop()
            formats.pop()
        else:  # the opening tag of a pair, which represents an element around runs or different formatting
            payload = payloads[item]
            element = payload[0] if payload else None
            assert not isinstance(element, FormattedText | RunPart)
            if element is None or element.tag == f"{W}rPr":
                parents.append(parents[-1])
                formats.append(element)
            else:
                new = element.makeelement(element.tag, dict(element.attrib))
                parents[-1].append(new)
                parents.append(new)
                formats.append(formats[-1])


def _text_run(text: str, formatting: "_Element | None", parent: "_Element | None" = None) -> "_Element":
    """Returns a new run with the text and a copy of the formatting."""
    from lxml import etree

    run = etree.Element(f"{W}r") if parent is None else parent.makeelement(f"{W}r")
    if formatting is not None:
        run.append(copy.deepcopy(formatting))
    node = etree.SubElement(run, f"{W}t", {f"{XML}space": "preserve"})
    node.text = text
    return run
