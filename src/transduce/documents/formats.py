"""Detects the format of a document from its content, and parses documents of all formats."""

import codecs
import re
from collections.abc import Callable

from transduce.documents.document import Document, DocumentLanguages, TextFormat
from transduce.documents.docx_document import DocxDocument
from transduce.documents.html_document import HtmlDocument
from transduce.documents.markdown_document import MarkdownDocument
from transduce.documents.po_document import PoDocument
from transduce.documents.srt_document import SrtDocument
from transduce.documents.string_tables import JsonDocument, YamlDocument
from transduce.documents.tmx_document import TmxDocument
from transduce.documents.xliff_document import XliffDocument
from transduce.text.lines import OTHER_FORMATS

MAX_DOCUMENT_BYTES = 1 << 28


_ROOTS = {  # formats by the name of the root element or of the document type
    "xliff": TextFormat.XLIFF,
    "tmx": TextFormat.TMX,
    "html": TextFormat.HTML,
}
_PROLOG = re.compile(
    r"\s*(?:(?><\?.*?\?>|<!--.*?-->)\s*)*+<(?:!DOCTYPE\s+)?(?:\w+:)?(?P<root>[\w-]+)", re.DOTALL | re.IGNORECASE
)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*(?:[\"']\s*)?([\w.:-]+)", re.IGNORECASE)
_ENCODINGS_OF_PAGES = {  # the encodings of the WHATWG standard, under the names that Python gives them
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "tis-620"),
    *(f"iso8859-{number}" for number in range(1, 17)),
    *(f"cp{number}" for number in (866, 874, 932, 949, 950, *range(1250, 1259))),
    *("gbk", "gb2312", "gb18030", "big5", "big5hkscs", "euc_jp", "iso2022_jp", "shift_jis", "euc_kr"),
}
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def refuse_other_formats(beginning: bytes, file: str) -> None:
    """Raises ValueError if a file is in a known format that cannot be read, such as PDF.

    `beginning` holds the first bytes of the file, and `file` is its name in the error message.
    """
    for mark, name in OTHER_FORMATS.items():
        if beginning.startswith(mark) and format_by_content(beginning) is None:
            raise ValueError(f"{file} is {name}, which cannot be read: save it as DOCX, HTML or text")


def format_by_content(beginning: bytes) -> TextFormat | None:
    """Returns the format that can be recognised from the first bytes of a file: DOCX, XLIFF, TMX or HTML.

    Returns None for any other content.
    """
    if beginning.startswith(b"PK\x03\x04"):
        return TextFormat.DOCX if b"[Content_Types].xml" in beginning or b"word/" in beginning else None
    mark = next((mark for mark in _MARKS if beginning.startswith(mark)), b"")
    text = beginning[len(mark) :].decode(_MARKS.get(mark, "utf-8"), "replace")
    match = _PROLOG.match(text)
    return _ROOTS.get(match["root"].lower()) if match else None


def read_document(content: bytes, kind: TextFormat, languages: DocumentLanguages, *, replace: bool = False) -> Document:
    """Parses the content of a document in the format `kind`.

    `languages` are the languages of the model. Translations that the document already contains are kept unless
    `replace` is true. Raises ValueError if the document is empty, damaged, or in a different format.
    """
    if not content.strip():
        raise ValueError("the file is empty")
    match kind:
        case TextFormat.DOCX:
            return DocxDocument(content)
        case TextFormat.XLIFF:
            return XliffDocument(content, languages, replace=replace)
        case TextFormat.TMX:
            return TmxDocument(content, languages, replace=replace)
    text, encode = _decode(content, kind)
    match kind:
        case TextFormat.MARKDOWN:
            return MarkdownDocument(text, encode)
        case TextFormat.HTML:
            return HtmlDocument(text, encode, languages)
        case TextFormat.SRT:
            return SrtDocument(text, encode)
        case TextFormat.PO:
            return PoDocument(text, languages, replace=replace)
        case TextFormat.JSON:
            return JsonDocument(text, encode)
    return YamlDocument(text, encode)


def _decode(content: bytes, kind: TextFormat) -> tuple[str, Callable[[str], bytes]]:
    """Decodes a file. Returns its text, and a function that encodes a text in the same encoding.

    Raises ValueError if the bytes are not valid in the declared encoding, or if this encoding is not supported.
    """
    mark = next((mark for mark in _MARKS if content.startswith(mark)), b"")
    encoding = _MARKS.get(mark, "utf-8")
    if kind is TextFormat.HTML and not mark and (declared := _CHARSET.search(content[:4096])):
        encoding = declared[1].decode("ascii")
        try:
            name = codecs.lookup(encoding).name
        except LookupError:
            name = ""
        if name not in _ENCODINGS_OF_PAGES:  # Python supports others, some of which take minutes for a megabyte
            raise ValueError(
                f"the file says that it is {encoding.upper()[:40]}, which is not read; convert it to UTF-8"
            )
        if name.startswith("utf-16"):  # real UTF-16 would have NUL bytes in the declaration
            encoding = "utf-8"
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        raise ValueError(f"the file is not {encoding.upper()}; convert it to UTF-8") from None
    errors = "xmlcharrefreplace" if kind is TextFormat.HTML else "strict"
    return text, lambda new: mark + new.encode(encoding, errors)
