"""The names of the formats of text that is translated."""

from enum import StrEnum

__all__ = ["TextFormat"]


class TextFormat(StrEnum):
    """Lines (one sentence each), plain text (lines of several sentences), or a document with structure."""

    LINES = "lines"
    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"
    SRT = "srt"
    DOCX = "docx"
    XLIFF = "xliff"
    TMX = "tmx"
    PO = "po"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_document(self) -> bool:
        """Whether the whole file is read before it is translated, because it has structure."""
        return self not in (TextFormat.LINES, TextFormat.TEXT)
