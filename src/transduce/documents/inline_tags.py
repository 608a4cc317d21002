"""Pairs the inline tags of a unit, and detects HTML elements whose text is not translated.

A tag that has no partner, or that crosses another pair, becomes a code.
"""

import re
from collections.abc import Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from transduce.documents.document import ClosingTag, Content, InlineCode, InlineItem, OpeningTag

EMPTY_INLINE = {"img", "wbr", "input"}
VOID = {"area", "base", "br", "col", "embed", "hr", "link", "meta", "param", "source", "track", *EMPTY_INLINE}
INLINE_PROTECTED = {"code", "kbd", "samp", "var", "math", "svg", "object", "audio", "video", "canvas"}
_PROTECTED = {"script", "style", "pre", "textarea", "template", "iframe"}
_NOT_TRANSLATED = re.compile(
    r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*(?:\"[^\"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b)",
    re.IGNORECASE,
)


def excludes_translation(raw: str) -> bool:
    """Returns True if a start tag opts its element out of translation, by `translate="no"` or class `notranslate`."""
    return bool(_NOT_TRANSLATED.search(raw))


def is_not_translated(name: str, raw: str) -> bool:
    """Returns True if the text of the element `name` must be left untranslated.

    This is the case for elements such as `code` and `script`, and for any element whose start tag, `raw`, opts it out
    of translation.
    """
    return name in _PROTECTED or name in INLINE_PROTECTED or excludes_translation(raw)


class ProtectedElement:
    """An element whose content is not translated.

    `start` is the offset of its opening tag in the text, and `first_item` is the index of the item for this tag.
    """

    def __init__(self, name: str, start: int, first_item: int) -> None:
        self.name, self.start, self.first_item = name, start, first_item
        self._depth = 1

    @classmethod
    def at(cls, name: str, raw: str, start: int, first_item: int) -> "ProtectedElement | None":
        """Returns the element that the tag `raw` opens at the offset `start`, or None if the element is translated."""
        is_protected = name not in VOID and is_not_translated(name, raw)
        return cls(name, start, first_item) if is_protected else None

    def is_closed_by(self, name: str, *, is_end: bool) -> bool:
        """Returns whether a tag inside the element closes it.

        Must be called for every tag inside the element, because it counts the open elements of the same name.
        """
        if name == self.name:
            self._depth += -1 if is_end else 1
        return self._depth == 0


T = TypeVar("T")

MAX_DEPTH = 100  # deepest nesting of pairs; the tags of a pair that is nested more deeply become codes


class FoundTag(NamedTuple, Generic[T]):
    """An inline tag that was found in a document.

    Both tags of a pair have the same name. Tags of the kinds `code`, `break` and `point` become codes. `payload` is the
    markup of the tag.
    """

    kind: Literal["open", "close", "code", "break", "point"]
    name: str
    payload: T
    is_element: bool = False  # whether it belongs to an XML element; no tag in an element has its partner outside it


class PairedContent(NamedTuple, Generic[T]):
    """The content of a unit, and the payload of each of its tags and codes: the markup to write for it."""

    content: Content
    payloads: dict[InlineItem, T]

    def with_payloads(self, content: Content) -> "list[str | T]":
        """Returns the items of `content` with each tag and code replaced by its payload."""
        return [item if isinstance(item, str) else self.payloads[item] for item in content]


def pair_tags(items: Sequence[str | FoundTag[T]]) -> PairedContent[T]:
    """Pairs the opening and closing tags that match and are properly nested. All other tags become codes."""
    # Maps the index of each paired tag to the index of its partner.
    partners: dict[int, int] = {}
    path: list[tuple[FoundTag[T], int]] = []
    for index, item in enumerate(items):
        if isinstance(item, str) or item.kind not in ("open", "close"):
            continue
        if item.kind == "open":
            if item.is_element or len(path) < MAX_DEPTH:
                path.append((item, index))
            continue
        ends = (n for n in reversed(range(len(path))) if path[n][0].name == item.name or path[n][0].is_element)
        depth = next(ends, None)
        if depth is not None and path[depth][0].name == item.name:
            partners[index], partners[path[depth][1]] = path[depth][1], index
            del path[depth:]
    content: list[InlineItem] = []
    payloads: dict[InlineItem, T] = {}
    for index, item in enumerate(items):
        if isinstance(item, str):
            content += [item] if item else []
            continue
        partner = partners.get(index)
        tag: InlineItem
        if partner is None:
            tag = InlineCode(index, is_break=item.kind == "break", is_point=item.kind == "point")
        else:
            tag = OpeningTag(index) if partner > index else ClosingTag(partner)
        content.append(tag)
        payloads[tag] = item.payload
    return PairedContent(tuple(content), payloads)


_TAG = re.compile(r"<(?P<end>/)?(?P<name>[A-Za-z][\w:.-]*)(?:\s[^<>]*?)?(?P<empty>/)?>")


def string_content(text: str, codes: str = r"(?!)") -> PairedContent[str]:
    """Parses a string that may contain tags such as `<b>`, for formats that define no inline tags of their own.

    `codes` is a regular expression for parts of the string that become codes as well.
    """
    items: list[str | FoundTag[str]] = []
    offset = 0
    protected: ProtectedElement | None = None
    for match in re.finditer(rf"{_TAG.pattern}|{codes}", text):
        kind: Literal["open", "close", "code", "break"] = "code"
        if match["name"] and match["name"].lower() == "br":
            kind = "break"
        elif match["name"] and not match["empty"]:
            kind = "close" if match["end"] else "open"
        name, begins = (match["name"] or "").lower(), None
        if kind == "open":
            begins = ProtectedElement.at(name, match.group(), match.start(), len(items) + 1)
        items += [text[offset : match.start()], FoundTag(kind, match["name"] or "", match.group())]
        offset = match.end()
        if protected is None:
            protected = begins
        elif kind in ("open", "close") and protected.is_closed_by(name, is_end=kind == "close"):
            items[protected.first_item :] = [FoundTag("code", "", text[protected.start : offset])]
            protected = None
    return pair_tags([*items, text[offset:]])
