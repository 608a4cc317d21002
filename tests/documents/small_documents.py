"""Small documents, and their translations by a translator without a model."""

import io
import zipfile

from fake_translator import reversing

from transduce.documents.document import DocumentLanguages, TextFormat
from transduce.documents.formats import read_document
from transduce.documents.sentence_translator import translate_units

LANGUAGES = DocumentLanguages("en", "de")


def translated(kind: str, source: str, *, replace: bool = False, languages: DocumentLanguages = LANGUAGES) -> str:
    """Returns a document in upper case, each sentence backwards."""
    document = read_document(source.encode(), TextFormat(kind), languages, replace=replace)
    return document.write(translate_units(document.units, reversing()).contents).decode()


def docx(body: str, compression: int = zipfile.ZIP_STORED) -> bytes:
    """Returns a document of Word with elements of the namespace `w`."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", compression) as archive:
        namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>')
    return output.getvalue()


def translated_docx(body: str) -> str:
    """Returns what a document of Word has in its body after the translation."""
    document = read_document(docx(body), TextFormat.DOCX, LANGUAGES)
    output = document.write(translate_units(document.units, reversing()).contents)
    text = zipfile.ZipFile(io.BytesIO(output)).read("word/document.xml").decode()
    return text.split("<w:body>")[1].split("</w:body>")[0]
