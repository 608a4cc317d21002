"""Which elements of HTML have no end, and which are not translated."""

import re

__all__ = ["EMPTY_INLINE", "INLINE_PROTECTED", "VOID", "ProtectedElement", "excludes_translation", "is_not_translated"]

EMPTY_INLINE = {"img", "wbr", "input"}
VOID = {"area", "base", "br", "col", "embed", "hr", "link", "meta", "param", "source", "track", *EMPTY_INLINE}
INLINE_PROTECTED = {"code", "kbd", "samp", "var", "math", "svg", "object", "audio", "video", "canvas"}
_PROTECTED = {"script", "style", "pre", "textarea", "template", "iframe"}
_NOT_TRANSLATED = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)


def excludes_translation(raw: str) -> bool:
    """Returns whether a tag says that its element is not translated."""
    return bool(_NOT_TRANSLATED.search(raw))


def is_not_translated(name: str, raw: str) -> bool:
    """Returns whether the text of an element stays as it is: code, and what the tag `raw` excludes."""
    return name in _PROTECTED or name in INLINE_PROTECTED or excludes_translation(raw)


class ProtectedElement:
    """An element in a text, whose content stays as it is: its place, and the first item of its content."""

    def __init__(self, name: str, start: int, first_item: int) -> None:
        self.name, self.start, self.first_item = name, start, first_item
        self._depth = 1

    @classmethod
    def at(cls, name: str, raw: str, start: int, first_item: int) -> "ProtectedElement | None":
        """Returns the element that a tag `raw` begins at a place and before an item; None where it is translated."""
        is_protected = name not in VOID and is_not_translated(name, raw)
        return cls(name, start, first_item) if is_protected else None

    def is_closed_by(self, name: str, *, is_end: bool) -> bool:
        """Counts a tag within the element; returns whether it is the end of the element."""
        if name == self.name:
            self._depth += -1 if is_end else 1
        return self._depth == 0
