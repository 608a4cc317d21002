"""Normalises text, so that differences which a reader cannot see do not change its translation.

The rules are normalisers of the `tokenizers` library. They are stored in `tokenizer.json`, so that every program that
reads this file applies them. The rules apply to the text from which subwords are learned, to the corpus and to every
input:

| text | source | target |
|---|---|---|
| control characters, zero-width spaces, direction marks, soft hyphens, U+FEFF | removed | removed |
| joiners (U+200C, U+200D) after Latin, Greek and Cyrillic, not in Persian, Hindi and emoji | removed | removed |
| combining sequences | composed (NFC) | composed (NFC) |
| full-width ASCII, such as "Ａ" | converted to ASCII | unchanged |
| each run of white space within the line, including tabs and no-break spaces | one space | unchanged |
| white space at the beginning and at the end | removed | removed |

White space within the target is preserved because French uses U+202F and U+00A0. Quotation marks and dashes are
preserved on both sides.
"""

import re
import unicodedata
from functools import cache
from typing import Literal

from tokenizers import Regex, normalizers

Side = Literal["source", "target"]

# These escapes have the same meaning in the regular expressions of Python, JavaScript and the library.
_INVISIBLE = (
    r"\u0000-\u0008\u000E-\u001F\u007F-\u0084\u0086-\u009F\u00AD\u061C\u180E\u200B\u200E\u200F\u202A-\u202E"
    r"\u2060-\u2064\u2066-\u206F\uFEFF\uFFF9-\uFFFB"
)
_JOINERS = r"\u200C\u200D"
_BEFORE_A_NEEDLESS_JOINER = r"\s\u0021-\u058F\u1E00-\u1FFF\u2000-\u206F\u3000-\u303F"
_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)}

_SUSPECT = re.compile(f"[{_INVISIBLE}{_JOINERS}]")
_SUSPECT_IN_SOURCE = re.compile(f"[{_INVISIBLE}{_JOINERS}\uff01-\uff5e]")

_LETTER = re.compile(r"[^\W\d_]")
_BEFORE_AN_ADDRESS = "(<[\"'“„«"


def normalizer_rules(side: Side) -> list[normalizers.Normalizer]:
    """Returns the rules for a side as `tokenizers` normalisers, in the order in which they are applied.

    Applying the rules a second time changes nothing.
    """
    needless_joiners = f"(?:^|(?<=[{_BEFORE_A_NEEDLESS_JOINER}]))[{_JOINERS}]+"
    rules: list[normalizers.Normalizer] = [normalizers.Replace(Regex(f"[{_INVISIBLE}]"), "")]
    if side == "source":
        rules += [normalizers.Replace(wide, narrow) for wide, narrow in _FULL_WIDTH.items()]
    # Text is composed first because a joiner is removed or kept depending on the character before it. It is composed
    # again because a removed joiner may have separated characters that can be composed.
    rules += [normalizers.NFC(), normalizers.Replace(Regex(needless_joiners), ""), normalizers.NFC()]
    if side == "source":
        rules.append(normalizers.Replace(Regex(r"\s+"), " "))
    return [*rules, normalizers.Strip()]


@cache
def _normalizer(side: Side) -> normalizers.Normalizer:
    return normalizers.Sequence(normalizer_rules(side))


def normalise(line: str, side: Side) -> str:
    """Normalises a line by the rules of a side.

    A line that the rules would not change, for example plain ASCII, is recognised quickly and returned as it is.
    """
    if side == "source":
        if " ".join(line.split()) == line and (
            (line.isascii() and line.isprintable())
            or (unicodedata.is_normalized("NFC", line) and not _SUSPECT_IN_SOURCE.search(line))
        ):
            return line
    elif line.strip() == line and (
        (line.isascii() and line.isprintable())
        or (unicodedata.is_normalized("NFC", line) and not _SUSPECT.search(line))
    ):
        return line
    return str(_normalizer(side).normalize_str(line))


def normalised_parts(line: str, side: Side) -> list[str]:
    """Returns a user-facing description of each kind of change that normalisation makes in a line."""
    if normalise(line, side) == line:
        return []
    parts = {
        "invisible characters": bool(_SUSPECT.search(line)),
        "letters that are not composed": not unicodedata.is_normalized("NFC", line),
        "full-width letters": side == "source" and bool(_FULL_WIDTH.keys() & set(line)),
    }
    spaced = line.strip() if side == "target" else " ".join(line.split())
    return [*(part for part, is_there in parts.items() if is_there), *(["white space"] if spaced != line else [])]


def has_text_to_translate(line: str) -> bool:
    """Returns True if a line has a letter outside URLs and e-mail addresses; other lines are copied instead."""
    if "@" not in line and "://" not in line and "www." not in line:
        first = _LETTER.search(line)
        if first is None or first.group().isalpha():  # not a sign like "²"
            return first is not None
    return any(any(map(str.isalpha, word)) and not _is_address(word) for word in line.split())


def _is_address(word: str) -> bool:
    name, at, domain = word.partition("@")
    is_url = word.lstrip(_BEFORE_AN_ADDRESS).startswith(("http://", "https://", "www."))
    return is_url or (bool(name and at) and "." in domain)
