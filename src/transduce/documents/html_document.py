"""Reads and writes HTML pages.

The text of block elements and the values of the attributes `alt`, `aria-label`, `placeholder` and `title` are
translated, and the language that the tag `html` declares is replaced. Every other byte is kept.
"""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from typing import Literal

from transduce.documents import inline_tags
from transduce.documents.document import (
    Content,
    Document,
    DocumentLanguages,
    Unit,
    has_letters,
    plain,
    same_language,
)
from transduce.documents.inline_tags import FoundTag

_INLINE_NAMES = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark q rb rp rt ruby s small span strike "
    "strong sub sup time tt u"
)
_INLINE = frozenset(_INLINE_NAMES.split())
# Elements whose opening or closing tag also ends a paragraph, because HTML allows `</p>` to be omitted before it.
_ENDS_OF_PARAGRAPH_NAMES = (
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr html li main menu nav ol p pre search section summary table tbody "
    "td tfoot th thead tr ul"
)
_ENDS_OF_PARAGRAPHS = frozenset(_ENDS_OF_PARAGRAPH_NAMES.split())
_LISTS = {"ul", "ol", "menu"}
_ATTRIBUTE = re.compile(
    r"\s(?P<name>[^\s=>\"'/]+)\s*=\s*(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\s\"'>]+))"
)
_TRANSLATED_ATTRIBUTES = {"alt", "aria-label", "placeholder", "title"}
_END_OF_COMMENT, _END_OF_SECTION = re.compile(r"--!?\s*>"), re.compile(r"\]\s*\]\s*>")

_XML, FIRST_CHARACTERS = re.compile(r"<\?xml\s|<html[^>]*\sxmlns\s*="), 4096

Raw = list[str | int]
"""Markup in pieces. A string is written exactly as it is, and a number is replaced by the translation of that unit."""


class _TokenReader(HTMLParser):
    """Splits a page into tokens: tags, texts, comments and others."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)  # so that the parser does not hold text back
        self.events: list[tuple[int, str, str]] = []  # offset, kind, name
        # The number of characters after the end of the last comment, and after the end of the last CDATA section.
        self.after_comments = self.after_sections = 0

    def tokens(self, text: str) -> Iterator[tuple[str, str, str]]:
        """Yields the tokens of a page, each with its kind and its tag name. Concatenated, the tokens equal the page."""
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        self.starts = starts
        end = text.rfind(">") + 1  # there is no whole tag after it, and searching for one there would take long
        # Entities are hidden from the parser, because they are text, and some malformed ones make the parser give up.
        parsed = text[:end].replace("&", "_")
        self.after_comments = end - max((match.end() for match in _END_OF_COMMENT.finditer(parsed)), default=0)
        self.after_sections = end - max((match.end() for match in _END_OF_SECTION.finditer(parsed)), default=0)
        self.events.append((0, "text", ""))
        self.feed(parsed)
        self.close()
        self.events.append((end, "text", ""))
        # Adjacent texts become one token, because joining millions of them one by one would take long.
        events = [
            event for before, event in pairwise([(0, "", ""), *self.events]) if not before[1] == event[1] == "text"
        ]
        for (offset, kind, name), (next_offset, _, _) in pairwise([*events, (len(text), "", "")]):
            if offset < next_offset:
                yield text[offset:next_offset], kind, name

    def parse_comment(self, i: int, report: bool = True) -> int:
        """Returns the offset of the end of the comment at `i`, or −1 if the comment has no end.

        If no comment ends after `i`, the rest of the page is not searched, because a page may have many unclosed
        comments.
        """
        return super().parse_comment(i, report) if len(self.rawdata) - i > self.after_comments else -1

    def parse_html_declaration(self, i: int) -> int:
        """Returns the offset of the end of the declaration at `i`, or −1 if the declaration has no end.

        In HTML, `<![` begins a comment, unless it begins a CDATA section of XHTML.
        """
        begins_section = self.rawdata.startswith("<![CDATA[", i) and len(self.rawdata) - i > self.after_sections
        if self.rawdata.startswith("<![", i) and not begins_section:
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def _note(self, kind: str, name: str = "") -> None:
        line, column = self.getpos()
        self.events.append((self.starts[line - 1] + column, kind, name))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Records an opening tag."""
        self._note("open", tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """Records an empty tag."""
        self._note("empty", tag)

    def handle_endtag(self, tag: str) -> None:
        """Records a closing tag."""
        self._note("close", tag)

    def handle_data(self, data: str) -> None:
        """Records text."""
        self._note("text")

    def handle_comment(self, data: str) -> None:
        """Records a comment."""
        self._note("comment")

    def handle_decl(self, decl: str) -> None:
        """Records a declaration."""
        self._note("block")

    def handle_pi(self, data: str) -> None:
        """Records a processing instruction."""
        self._note("block")

    def unknown_decl(self, data: str) -> None:
        """Records a CDATA section."""
        self._note("section")


class HtmlDocument(Document):
    """An HTML page. Each tag of a block element ends the current unit.

    `text` is the decoded page, and `encode` encodes it again.
    """

    def __init__(self, text: str, encode: Callable[[str], bytes], languages: DocumentLanguages) -> None:
        super().__init__()
        self._encode, self._languages = encode, languages
        # XML defines only five named entities, and `&nbsp;` is not one of them.
        self._no_break_space = "&#160;" if _XML.search(text[:FIRST_CHARACTERS]) else "&nbsp;"
        self._writers: list[Callable[[Content], Raw]] = []
        self._skeleton: Raw = []
        self._items: list[str | FoundTag[Raw]] = []  # items of the current unit
        self._raw: Raw = []  # markup of the current unit
        # The names of the outermost protected element and of the open elements with the same name inside it. If the
        # element is `li`, lists inside it are included.
        self._protected: list[str] = []
        self._protected_raw: Raw = []
        self._protected_is_inline = False
        for raw, kind, name in _TokenReader().tokens(text):
            self._add(raw, kind, name)
        if self._protected:
            self._end_protected()
        self._end_unit()

    def write(self, translations: Sequence[Content]) -> bytes:
        """Inserts the translations into the page, and returns the encoded page."""
        return self._encode("".join(self._filled(self._skeleton, translations)))

    def _filled(self, raw: Raw, translations: Sequence[Content]) -> list[str]:
        """Returns the pieces of markup as strings, with the number of each unit replaced by its translation."""
        texts: list[str] = []
        for part in raw:
            if isinstance(part, str):
                texts.append(part)
            else:
                texts += self._filled(self._writers[part](translations[part]), translations)
        return texts

    def _add_unit(self, unit: Unit, write: Callable[[Content], Raw]) -> int:
        """Adds a unit and returns its number. `write` converts a translation of the unit to markup."""
        self.units.append(unit)
        self._writers.append(write)
        return len(self.units) - 1

    def _add(self, raw: str, kind: str, name: str) -> None:
        """Adds a token to the current unit, or ends the unit if the token is a tag of a block element."""
        if self._protected:
            self._add_protected(raw, kind, name)
        elif kind == "text":
            self._raw.append(raw)
            self._items.append(html.unescape(raw))
        elif kind in ("comment", "section"):
            self._add_tag("point" if kind == "comment" else "code", "", [raw])
        elif kind in ("open", "empty") and name not in inline_tags.VOID and inline_tags.is_not_translated(name, raw):
            self._protected, self._protected_raw = [name], [raw]
            self._protected_is_inline = name in inline_tags.INLINE_PROTECTED or name in _INLINE
            # In XHTML and SVG, the element ends here. In text/html, a browser would end it at its end tag; but if that
            # tag were missing, all text after the element would remain untranslated.
            if kind == "empty":
                self._end_protected()
        elif name in _INLINE:
            self._add_tag("close" if kind == "close" else "open", name, self._tag(raw, name))
        elif name in inline_tags.EMPTY_INLINE:
            self._add_tag("point" if name == "wbr" else "code", "", self._tag(raw, name))
        else:
            self._end_unit()
            self._skeleton += self._tag(raw, name)

    def _add_tag(self, kind: Literal["open", "close", "code", "point"], name: str, raw: Raw) -> None:
        """Adds an inline tag or a code to the current unit."""
        self._items.append(FoundTag(kind, name, raw))
        self._raw += raw

    def _add_protected(self, raw: str, kind: str, name: str) -> None:
        """Adds a token to the current protected element, and ends the element if this token closes it.

        If the end tag of a `p` or `li` element is omitted, the element ends before the token that implies its end.
        """
        element = self._protected[0]
        ends_without_tag = False
        if element == "p":
            ends_without_tag = name in _ENDS_OF_PARAGRAPHS and (kind, name) != ("close", "p")
        elif self._protected == ["li"]:
            ends_without_tag = name in _LISTS if kind == "close" else name == "li"
        if ends_without_tag:
            self._end_protected()
            self._add(raw, kind, name)
            return
        self._protected_raw.append(raw)
        if element == "li" and name in _LISTS:
            name = "ul"
        if name != element and (element, name) != ("li", "ul"):
            return
        if kind == "open":
            self._protected.append(name)
        elif kind == "close":
            while self._protected.pop() != name:  # the end of a list also ends its items
                pass
            if not self._protected:
                self._end_protected()

    def _end_protected(self) -> None:
        """Ends the protected element. An inline element becomes a code of the unit; any other element ends the unit."""
        if self._protected_is_inline:
            self._add_tag("code", "", self._protected_raw)
        else:
            self._end_unit()
            self._skeleton += self._protected_raw
        self._protected, self._protected_raw = [], []

    def _language_after(self, declared: str) -> str:
        """Returns the language of the translated page, which declares the language `declared`."""
        source, target = self._languages
        if target is None or not declared or (source is not None and not same_language(declared, source)):
            return html.escape(declared)
        return html.escape(target)

    def _tag(self, raw: str, name: str) -> Raw:
        """Returns the markup of a tag, in which the value of each translated attribute is replaced by a new unit.

        The tag `html` then declares the target language, if it declares the source language.
        """
        markup: Raw = []
        offset = 0
        has_text = raw[1:2] != "/" and not inline_tags.excludes_translation(raw)
        for match in _ATTRIBUTE.finditer(raw) if has_text else ():
            quoted = next(form for form in ("double", "single", "bare") if match[form] is not None)
            value = html.unescape(match[quoted])
            if name == "html" and match["name"].lower() in ("lang", "xml:lang"):
                markup += [raw[offset : match.start(quoted)], self._language_after(value)]
                offset = match.end(quoted)
            elif match["name"].lower() in _TRANSLATED_ATTRIBUTES and quoted != "bare" and has_letters(value):
                number = self._add_unit(Unit((value,), wraps=True), lambda content: [html.escape(plain(content))])
                markup += [raw[offset : match.start(quoted)], number]
                offset = match.end(quoted)
        return [*markup, raw[offset:]]

    def _end_unit(self) -> None:
        """Ends the current unit. If it has no letters, its markup is kept as it is."""
        paired, raw = inline_tags.pair_tags(self._items), self._raw
        self._items, self._raw = [], []
        if not has_letters(plain(paired.content)):
            self._skeleton += raw
            return

        def write(content: Content) -> Raw:
            if content == paired.content:
                return raw
            markup: Raw = []
            for item in content:
                if isinstance(item, str):  # no-break spaces are written as entities, so that they remain visible
                    markup.append(html.escape(item, quote=False).replace("\u00a0", self._no_break_space))
                else:
                    markup += paired.payloads[item]
            return markup

        self._skeleton.append(self._add_unit(Unit(paired.content, wraps=True), write))
