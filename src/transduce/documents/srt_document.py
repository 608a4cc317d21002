"""Reads and writes SubRip subtitles. Keeps the numbers and times of the cues, and wraps their translated text anew."""

import itertools
import re
from collections import deque
from collections.abc import Callable, Sequence

from transduce.documents.document import Content, Document, Unit, has_letters, plain
from transduce.documents.inline_tags import PairedContent, string_content

_TIMES = re.compile(r"^\s*\d+:\d\d:\d\d[,.]\d{1,3}\s*-->\s*\d+:\d\d:\d\d[,.]\d{1,3}")
_POSITION = r"\{\\[^{}]*\}"
_CODES = rf"{_POSITION}|^\s*[-–—]+\s*"
_TAG = re.compile(rf"<[^<>]*>|{_POSITION}")


class SrtDocument(Document):
    """A SubRip file, in which each cue is a unit.

    A line that begins with a dash also begins a new unit, because it belongs to another speaker.
    """

    def __init__(self, text: str, encode: Callable[[str], bytes]) -> None:
        super().__init__()
        self._encode = encode
        self._lines = text.split("\n")  # lines keep their carriage returns, because some files mix both line endings
        # The first line of each unit, the line after its last line, and its content.
        self._texts: list[tuple[int, int, PairedContent[str]]] = []
        times = [number for number, line in enumerate(self._lines) if _TIMES.match(line)]
        if not times and text.strip():
            raise ValueError(
                "not SRT: no line has times such as 00:00:01,000 --> 00:00:02,500; choose another --format"
            )
        for number, following in itertools.pairwise([*times, len(self._lines)]):
            first = number + 1
            last = first
            while last < following and self._lines[last].strip():
                last += 1
            if first < last == following < len(self._lines) and self._lines[last - 1].strip().isdecimal():
                last -= 1
            starts = [
                number
                for number in range(first, last)
                if number == first or _TAG.sub("", self._lines[number]).lstrip().startswith(("-", "–", "—"))
            ]
            for start, end in itertools.pairwise([*starts, last]):
                paired = string_content(" ".join(line.strip() for line in self._lines[start:end]), _CODES)
                if has_letters(plain(paired.content)):
                    self.units.append(Unit(paired.content, wraps=True))
                    self._texts.append((start, end, paired))

    def write(self, translations: Sequence[Content]) -> bytes:
        """Returns the subtitles with the translations. No unit gets more lines than it had."""
        lines, written = [], 0
        for (start, end, paired), content in zip(self._texts, translations, strict=True):
            if content == paired.content:
                continue
            lines += self._lines[written:start]
            wrapped = wrap("".join(paired.with_payloads(content)), end - start)
            replaced = self._lines[end - len(wrapped) : end]
            lines += [new + ("\r" if old.endswith("\r") else "") for new, old in zip(wrapped, replaced, strict=True)]
            written = end
        return self._encode("\n".join([*lines, *self._lines[written:]]))


def wrap(text: str, lines: int) -> list[str]:
    """Wraps a text at spaces into at most `lines` lines of similar length.

    Tags do not count towards the length of a line, and lines are not broken inside them.
    """
    words = deque(re.findall(r"(?:<[^<>]*>|\{\\[^{}]*\}|[^\s<{]|[<{])+", text))
    wrapped: list[str] = []
    remaining = sum(_width(word) + 1 for word in words)
    for count in range(lines, 0, -1):
        line: list[str] = []
        width, mean_width = 0, remaining / count
        while words and (count == 1 or not line or width + (_width(words[0]) + 1) / 2 <= mean_width):
            line.append(words.popleft())
            width += _width(line[-1]) + 1
        remaining -= width
        wrapped += [" ".join(line)] if line else []
    return wrapped


def _width(word: str) -> int:
    """Returns the length of a word without its tags."""
    return len(_TAG.sub("", word))
