"""DOCX: paragraphs of the text, headers, footers and notes; formatting follows the words."""

import io
import zipfile
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transduce.translation.documents.docx_paragraph import ParagraphContent, fill_paragraph, read_paragraph
from transduce.translation.documents.units import Content, Unit, has_letters, plain
from transduce.translation.documents.xml_tree import parse_xml

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["DocxDocument"]

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MAX_BYTES = 1 << 28  # of all files of the archive together
MAX_FILES = 10_000
_PARTS = ("document", "header", "footer", "footnotes", "endnotes")


class DocxDocument:
    """A document of Word. Every other file of the archive stays as it is."""

    def __init__(self, content: bytes) -> None:
        self._files = _read_archive(content)
        self.units: list[Unit] = []
        self.notes: list[str] = []
        self._paragraphs: list[tuple[etree._Element, ParagraphContent]] = []
        self._trees: dict[str, etree._ElementTree] = {}
        if "word/document.xml" not in {entry.filename for entry, _ in self._files}:
            raise ValueError("not DOCX: the archive has no word/document.xml; choose another --format")
        for entry, part in self._files:
            folder, _, name = entry.filename.rpartition("/")
            if folder == "word" and name.startswith(_PARTS) and name.endswith(".xml"):
                self._read(entry.filename, part)

    def _read(self, name: str, part: bytes) -> None:
        """Collects the paragraphs of a file of the archive."""
        self._trees[name] = parse_xml(part, "DOCX")
        for paragraph in list(self._trees[name].iter(f"{W}p")):
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
        with zipfile.ZipFile(output, "w") as archive:
            for entry, part in self._files:
                tree = self._trees.get(entry.filename)
                changed = (
                    etree.tostring(tree, encoding="UTF-8", xml_declaration=True, standalone=True)
                    if tree is not None
                    else part
                )
                archive.writestr(entry, changed, entry.compress_type)
        return output.getvalue()


def _read_archive(content: bytes) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """Returns the files of an archive; raises ValueError where it is damaged, encrypted or too large."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)  # no more is read, whatever an entry holds
            if size > MAX_BYTES or len(entries) > MAX_FILES:
                raise ValueError(f"the DOCX unpacks to {size:,} bytes in {len(entries):,} files, more than is read")
            if len({entry.filename for entry in entries}) < len(entries):
                raise ValueError("damaged DOCX: two files of the archive have one name")
            return [(entry, archive.read(entry)) for entry in entries]
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ValueError(f"damaged DOCX: {error}; save it again") from None
