"""DOCX: paragraphs of the text, headers, footers and notes; formatting follows the words."""

import copy
import io
import shutil
import zipfile
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transduce.documents.docx_paragraph import ParagraphContent, W, fill_paragraph, read_paragraph
from transduce.documents.units import Content, Unit, has_letters, plain
from transduce.documents.xml_tree import parse_xml

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["DocxDocument"]

MAX_BYTES = 1 << 28  # of all files of the archive together
MAX_FILES = 10_000
CHUNK_BYTES = 1 << 16
# Of the files that are parsed. Their trees then have some 1.3 GB at most: an attribute of 5 bytes, ` a=""`, takes 216
# in a tree, and an element of 4 bytes, `<a/>`, takes 120. Each element of a paragraph takes 470 bytes more, so 1 GB.
MAX_XML_BYTES = 1 << 25
MAX_TAGS = 1 << 21  # references to entities included
# Of the formatting of runs that a translation repeats: at most so many characters in all, and so many for each byte of
# the files that are parsed, but for a small document. An element of 4 bytes counts 40 and takes some 150 in memory.
MAX_COPIED, FREELY_COPIED, COPIES = 1 << 27, 1 << 22, 16
_PARTS = ("document", "header", "footer", "footnotes", "endnotes")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of Word; zipfile bounds the memory of no other


class DocxDocument:
    """A document of Word. Every other file of the archive stays as it is."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        parts = _read_archive(content)
        self.units: list[Unit] = []
        self.notes: list[str] = []
        self._paragraphs: list[tuple[etree._Element, ParagraphContent]] = []
        self._trees: dict[str, etree._ElementTree] = {}
        if "word/document.xml" not in parts:
            raise ValueError("not DOCX: the archive has no word/document.xml; choose another --format")
        if (tags := sum(part.count(b"<") + part.count(b"&") for part in parts.values())) > MAX_TAGS:
            raise ValueError(f"the DOCX has {tags:,} tags, more than {MAX_TAGS:,}; split the document")
        for name, part in parts.items():
            self._read(name, part)
        copied = sum(content.copied_size for _, content in self._paragraphs)
        if copied > min(MAX_COPIED, max(FREELY_COPIED, COPIES * sum(map(len, parts.values())))):
            raise ValueError(
                f"the translation of the DOCX would repeat its formatting in {copied:,} characters, because parts of "
                "runs share much formatting; save the document again, or split it"
            )

    def _read(self, name: str, part: bytes) -> None:
        """Collects the paragraphs of a file of the archive."""
        self._trees[name] = parse_xml(part, "DOCX")
        for paragraph in self._trees[name].iter(f"{W}p"):
            content = read_paragraph(paragraph)
            if has_letters(plain(content.paired.content)):
                self.units.append(Unit(content.paired.content))
                self._paragraphs.append((paragraph, content))

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the archive with the translations."""
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
                # Unpacked piece by piece: some kilobytes of an archive may be a quarter of a gigabyte.
                with original.open(entry) as file, archive.open(copy.copy(entry), "w") as copied:
                    shutil.copyfileobj(file, copied, CHUNK_BYTES)
        return output.getvalue()


def _is_parsed(entry: zipfile.ZipInfo) -> bool:
    """Returns whether a file of the archive has text to translate."""
    folder, _, name = entry.filename.rpartition("/")
    return folder == "word" and name.startswith(_PARTS) and name.endswith(".xml")


def _read_archive(content: bytes) -> dict[str, bytes]:
    """Returns the files that are parsed; raises ValueError where the archive is damaged, encrypted or too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            _check_entries(entries)
            for entry in entries:
                if not _is_parsed(entry):
                    with archive.open(entry) as file:
                        while file.read(CHUNK_BYTES):  # compares the checksum at the end
                            pass
            return {entry.filename: _read_file(archive, entry) for entry in entries if _is_parsed(entry)}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ValueError(f"damaged DOCX: {error}; save it again") from None


def _check_entries(entries: Sequence[zipfile.ZipInfo]) -> None:
    """Raises ValueError for files that are too large, too many, of one name, or compressed by another method."""
    size, parsed_size = (sum(entry.file_size for entry in some) for some in (entries, filter(_is_parsed, entries)))
    if size > MAX_BYTES or len(entries) > MAX_FILES:
        raise ValueError(
            f"the DOCX unpacks to {size:,} bytes in {len(entries):,} files, more than {MAX_BYTES:,} bytes or "
            f"{MAX_FILES:,} files; split the document"
        )
    if parsed_size > MAX_XML_BYTES:
        raise ValueError(
            f"the DOCX unpacks to {parsed_size:,} bytes of text with its markup, more than {MAX_XML_BYTES:,}; "
            "split the document"
        )
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError("damaged DOCX: two files of the archive have one name; save it again")
    for entry in entries:
        if entry.compress_type not in _METHODS:
            raise ValueError(
                f"damaged DOCX: {entry.filename} is compressed by method {entry.compress_type} of ZIP, which Word "
                "does not write; save the document again"
            )


def _read_file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Returns the content of a file of an archive, at most of the size that the archive says."""
    with archive.open(entry) as file:
        return file.read(entry.file_size)  # without a size zipfile unpacks up to 1 GiB before it cuts
