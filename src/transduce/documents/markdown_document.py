"""Reads and writes Markdown documents (CommonMark with tables and strikethrough).

The text of headings, paragraphs, lists, quotes and tables is translated. markdown-it finds the blocks and the inline
tokens, but does not report the positions of the tokens in the file. `InlineReader` therefore finds each token in the
text from which it was parsed, so that each tag keeps its own spelling (`*` or `_`).
"""

import html
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from transduce.documents.document import Content, InlineCode, SpanDocument, Unit, import_library
from transduce.documents.inline_tags import FoundTag, PairedContent, ProtectedElement, pair_tags

if TYPE_CHECKING:
    from markdown_it.token import Token


_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\r?\n.*?\n(?:---|\.\.\.)|\+\+\+[ \t]*\r?\n.*?\n\+\+\+)[ \t]*(?:\r?\n|\Z)", re.DOTALL
)


class MarkdownDocument(SpanDocument):
    """A Markdown document. Each translated paragraph is written on a single line."""

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        super().__init__(text, encode)
        markdown_it = import_library("markdown_it", "Markdown")
        front = _FRONT_MATTER.match(text)
        skipped = front.end() if front else 0
        body = text[skipped:]
        tokens = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body)
        lines, starts, offset = body.split("\n"), [], skipped
        for line in lines:
            starts.append(offset)
            offset += len(line) + 1
        column, last_line = 0, -1
        first_line = 1 + text.count("\n", 0, skipped)
        for token in tokens:
            if token.type != "inline" or not token.content or token.map is None:
                continue
            first = token.map[0]
            column = column if first == last_line else 0
            try:
                places = _find(token.content, lines, first, column)
                # The text between the lines of the unit: a line break and, after it, any indentation and quote markers.
                between = [
                    f"{lines[first + number][end:]}\n{lines[first + number + 1][:start]}"
                    for number, ((_, end), (start, _)) in enumerate(pairwise(places))
                ]
                paired = pair_tags(InlineReader(token.content, between).read(token.children or []))
            except UnreadableInlineError:
                self.notes.append(f"line {first + first_line} is kept: its Markdown is not understood")
                continue
            start, end = starts[first] + places[0][0], starts[first + len(places) - 1] + places[-1][1]
            self.add(start, end, Unit(paired.content, wraps=True), partial(_write_inline, paired))
            last_line, column = first, places[0][1]


def _find(content: str, lines: Sequence[str], first: int, column: int) -> list[tuple[int, int]]:
    """Returns the columns at which each line of `content` begins and ends in the file, from line `first` on.

    `lines` are the lines of the file. The first line of `content` is searched for from `column` on. Raises
    UnreadableInlineError if a line is not found.
    """
    places = []
    for number, part in enumerate(content.split("\n"), start=first):
        start = lines[number].find(part, column if number == first else 0) if number < len(lines) else -1
        if start < 0:
            raise UnreadableInlineError
        places.append((start, start + len(part)))
    return places


def _write_inline(paired: PairedContent[str], content: Content) -> str:
    """Returns a translation as Markdown, with its text escaped."""
    output, begins_line = [], True
    for item in content:
        if isinstance(item, str):
            output.append(escape_inline(item, begins_line=begins_line))
        else:
            output.append(paired.payloads[item])
        begins_line = isinstance(item, InlineCode) and item.is_break
    return "".join(output)


_LINE_END = re.compile(r" *\n *")
_HARD_BREAK = re.compile(r"(?: {2,}|\\)\n *")
_CODE = re.compile(r"(?s)(`+)(?!`).*?(?<!`)\1(?!`)")
_ENTITY = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#\d{1,7}|[A-Za-z][A-Za-z0-9]{1,31});")
_LINK_END = re.compile(r"\]\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*\))*\)|\]\[(?:[^\[\]\\]|\\.)*\]|\]", re.DOTALL)
_IMAGE_LABEL = re.compile(r"!\[(?:[^\[\]\\]|\\.|\[(?:[^\[\]\\]|\\.)*\])*", re.DOTALL)
_SPECIAL = re.compile(r"[\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_BLOCK_START = re.compile(r"^(\s*)(?:([#+>=-])|(\d+)([.)]))(?=\s|$|[-=])")


# Marks in GitHub's Markdown: `[x]` for a task, `[!NOTE]` for an alert, `[^1]` for a reference to a footnote, and
# `[^1]: ` before the text of the footnote.
_MARK = re.compile(r"\[[ xX]\](?=\s)|(?P<alert>\[![A-Za-z]+\])(?=\s*$)|(?P<footnote>\[\^[^\s\[\]]+\])")
_FOOTNOTE = re.compile(r"\[\^[^\s\[\]]+\]:\s")
ALERT = "alert"


class UnreadableInlineError(Exception):
    """Raised when a token of inline Markdown is not found in the text from which it was parsed."""


class InlineReader:
    """Finds markdown-it's inline tokens, in order, in the text from which they were parsed."""

    def __init__(self, text: str, line_ends: Sequence[str]) -> None:
        """Prepares to read the inline Markdown `text`.

        `line_ends` contains, for each line break in `text`, the characters that the file has in its place.
        """
        self.text, self.position = text, 0
        self._line_ends = dict(zip((match.start() for match in re.finditer("\n", text)), line_ends, strict=True))
        self.items: list[str | FoundTag[str]] = []
        self._link = 0, 0  # the position after the opening bracket of the current link, and the index of its first item
        self._line_end = 0  # the position of the last line break
        self._protected: ProtectedElement | None = None

    def read(self, tokens: "list[Token]") -> list[str | FoundTag[str]]:
        """Returns the unescaped text and the tags in order.

        Raises UnreadableInlineError if a token is not found, or if text is left after the last token.
        """
        for token in tokens:
            match token.type:
                case "text" | "text_special":
                    self._text(token.content)
                case "softbreak":
                    self._line_end = self.position
                    line_end = self._match(_LINE_END)
                    last = self.items[-1] if self.items else ""
                    if isinstance(last, FoundTag) and last.name == ALERT:  # the line break belongs to the alert's mark
                        self.items[-1] = last._replace(kind="break", payload=last.payload + line_end)
                    else:
                        self.items.append("\n")
                case "hardbreak":
                    self.items.append(FoundTag("break", "", self._match(_HARD_BREAK)))
                case "code_inline":
                    self.items.append(FoundTag("code", "", self._match(_CODE)))
                case "html_inline":
                    raw = self._literal(token.content)
                    tag = re.match(r"</?([A-Za-z][\w-]*)", raw)
                    if tag is None or raw.endswith("/>"):
                        self.items.append(FoundTag("point" if raw.startswith("<!--") else "code", "", raw))
                        continue
                    name, is_end, begins = tag[1].lower(), raw[1] == "/", None
                    if not is_end:
                        begins = ProtectedElement.at(name, raw, self.position - len(raw), len(self.items))
                    self.items.append(FoundTag("close" if is_end else "open", f"html {name}", raw))
                    if self._protected is None:
                        self._protected = begins
                    elif self._protected.is_closed_by(name, is_end=is_end):
                        code = FoundTag("code", "", self._raw(self._protected.start))
                        self.items[self._protected.first_item :] = [code]
                        self._protected = None
                case "image":
                    start = self.position
                    self._match(_IMAGE_LABEL)
                    self._match(_LINK_END)
                    self.items.append(FoundTag("code", "", self._raw(start)))
                case "link_open":
                    opening = self._literal("<" if token.markup == "autolink" else "[")
                    self._link = self.position, len(self.items)
                    self.items.append(FoundTag("open", "link", opening))
                case "link_close":
                    start, first = self._link
                    label, is_autolink = self._raw(start), token.markup == "autolink"
                    closing = self._literal(">") if is_autolink else self._match(_LINK_END)
                    if is_autolink or label.startswith("^"):  # a URL in angle brackets, or a footnote
                        self.items[first:] = [FoundTag("code", "", self._raw(start - 1))]
                    else:
                        # The text of the link may also be its label. The label must be kept, so it is written out.
                        closing = f"][{label}]" if closing in ("]", "][]") else closing
                        self.items.append(FoundTag("close", "link", closing))
                case _ if token.markup:
                    name, raw = token.type.rpartition("_")[0], self._literal(token.markup)
                    self.items.append(FoundTag("open" if token.nesting > 0 else "close", name, raw))
                case _:
                    raise UnreadableInlineError
        if self.text[self.position :].strip(" "):
            raise UnreadableInlineError
        return self.items

    def _text(self, content: str) -> None:
        """Adds `content`, which may be escaped in the text. Marks of tasks, alerts and footnotes become codes."""
        begin = 0
        if (definition := _FOOTNOTE.match(content)) and (not self.items or self.items[-1] == "\n"):
            # The mark before the text of a footnote begins a line, and the preceding line break belongs to the mark.
            begin, start = definition.end(), self._line_end if self.items else self.position
            self._pass_over(definition.group())
            self.items[-1:] = [FoundTag("break" if self.items else "code", "", self._raw(start))]
        for match in _MARK.finditer(content, begin):
            if match["footnote"] or not (self.items or match.start()):
                self._plain(content[begin : match.start()])
                start, begin = self.position, match.end()
                self._pass_over(match.group())
                self.items.append(FoundTag("code", ALERT if match["alert"] else "", self._raw(start)))
        self._plain(content[begin:])

    def _plain(self, content: str) -> None:
        """Adds text that contains no marks."""
        self._pass_over(content)
        self.items += [content] if content else []

    def _pass_over(self, content: str) -> None:
        """Advances the position past `content`, which may be escaped in the text."""
        for character in content:
            is_plain = self.text.startswith(character, self.position)
            if is_plain and character not in "\\&":
                self.position += 1
                continue
            entity = _ENTITY.match(self.text, self.position)
            if self.text.startswith("\\" + character, self.position):
                self.position += 2
            elif entity and html.unescape(entity.group()) == character:
                self.position = entity.end()
            elif is_plain:
                self.position += 1
            else:
                raise UnreadableInlineError

    def _raw(self, start: int) -> str:
        """Returns the text from `start` to the current position, exactly as it is in the file."""
        return "".join(self._line_ends.get(index, self.text[index]) for index in range(start, self.position))

    def _literal(self, raw: str) -> str:
        """Advances the position past `raw`, and returns this text exactly as it is in the file."""
        if not self.text.startswith(raw, self.position):
            raise UnreadableInlineError
        self.position += len(raw)
        return self._raw(self.position - len(raw))

    def _match(self, pattern: re.Pattern[str]) -> str:
        """Advances the position past a match of `pattern`, and returns the match exactly as it is in the file."""
        match = pattern.match(self.text, self.position)
        if match is None:
            raise UnreadableInlineError
        self.position = match.end()
        return self._raw(match.start())


def escape_inline(text: str, *, begins_line: bool) -> str:
    """Escapes text so that Markdown reads it as plain text.

    If `begins_line` is true, also escapes a beginning that would start a block, for example a heading or a list.
    """
    escaped = _SPECIAL.sub(lambda match: "\\" + match.group(), text)
    if begins_line:
        escaped = _BLOCK_START.sub(
            lambda match: match[1] + ("\\" + match[2] if match[2] else f"{match[3]}\\{match[4]}"), escaped
        )
    return escaped
