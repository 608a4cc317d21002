"""Finds text that a translation must copy unchanged: placeholders, URLs, mail addresses and code."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from transduce.documents.sentence_splitter import SPACELESS


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A part of a text that is copied to the translation unchanged."""

    text: str


_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"  # three levels, for the plural and select formats of ICU
# In scripts without spaces, text may directly follow an address. A URL therefore ends at punctuation of these scripts,
# and a mail address at their letters.
_ADDRESS = r"[^\s<>\"“”«»、。，；：！？（）「」『』《》【】]+"
_MAIL = rf"(?:(?![{SPACELESS}])[\w.+-])"
_PLACEHOLDER = re.compile(
    "|".join(
        (
            rf"(?:https?|ftp)://{_ADDRESS}",
            rf"(?<![a-zA-Z0-9_])www\.{_ADDRESS}",
            rf"(?<![a-zA-Z0-9_])mailto:{_ADDRESS}",
            rf"(?<!{_MAIL}){_MAIL}{{1,64}}@(?:(?![{SPACELESS}])[\w-])+(?:\.(?:(?![{SPACELESS}])[\w-])+)+",
            r"`[^`\n]+`",
            rf"[$%#]?{_BRACES}",  # {name}, ${name} of a shell, %{name} and #{name} of Ruby
            r"%\([^()\s]+\)[-+#0]*+\d*+(?:\.\d+)?[a-zA-Z]",  # Python's %(name)s
            r"%[A-Za-z_]\w*%",  # %NAME% of Windows
            r"%%",
            r"(?<!\d)%(?:\d+\$)?[-+#0]*+(?:\d++|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[zjtL])?[sdiuoxXfFeEgGcp@]",  # C's
            r"(?<!\w)\$[A-Za-z_]\w*",  # $name of a shell
            r"&(?:[A-Za-z]\w*|#\d+|#x[0-9A-Fa-f]+);",  # an entity in a plain string
        )
    )
)
_SENTENCE_END = ".,;:!?'’"
_BRACKETS = {")": "(", "]": "["}


def split_placeholders(text: str) -> Iterator[str | Placeholder]:
    """Splits a text at its placeholders, and yields the texts and placeholders in order. No part is empty."""
    start = 0
    for match in _PLACEHOLDER.finditer(text):
        copied = match.group()
        if copied[0] not in "`{$%#&":
            # Punctuation after an address is not part of it, for example a full stop or an unmatched closing bracket.
            counts, end = Counter(copied), len(copied)
            while end:
                last = copied[end - 1]
                is_surplus = last in _BRACKETS and counts[last] > counts[_BRACKETS[last]]
                if last not in _SENTENCE_END and not is_surplus:
                    break
                counts[last] -= 1
                end -= 1
            copied = copied[:end]
        if match.start() > start:
            yield text[start : match.start()]
        yield Placeholder(copied)
        start = match.start() + len(copied)
    if start < len(text):
        yield text[start:]
