"""Defines the checks for parallel text, and implements the checks that need only a single pair."""

import re
from collections import Counter
from collections.abc import Collection
from enum import StrEnum

from transduce.text.normalisation import normalise


class Check(StrEnum):
    """A check for pairs of lines. The values are the names of the checks in tables and in JSON."""

    phrase: str
    """Describes the pairs with this fault in a message, after their number, as in "3 pairs with markup"."""

    EMPTY = "empty", "with an empty side"
    ENCODING = "encoding", "with bytes that are not UTF-8"
    LONG = "long", "with a very long side"
    RATIO = "ratio", "with lengths far from the usual ratio"
    COPY = "copied", "with a target equal to its source"
    SWAPPED = "swapped", "with the languages of the sides exchanged"
    WRONG_LANGUAGE = "wrong_language", "with a side in another language"
    WRONG_SCRIPT = "wrong_script", "with a side in another script"
    DUPLICATE = "duplicate", "that repeat an earlier pair"
    NEAR_DUPLICATE = "near_duplicate", "that repeat an earlier pair but for case, punctuation, digits or spaces"
    SEVERAL_TARGETS = "several_targets", "with the source of an earlier pair and another target"
    MARKUP = "markup", "with markup"
    CONTROL = "control", "with control characters"
    MOJIBAKE = "mojibake", "with text decoded from a wrong encoding"
    UNNORMALISED = "unnormalised", "that the normaliser of the subwords changes"
    NUMBERS = "numbers", "with numbers that differ between the sides"
    OVERLAP = "overlap", "with a source of the validation or test set"

    def __new__(cls, value: str, phrase: str) -> "Check":
        """Creates a check from its name and its phrase."""
        check = str.__new__(cls, value)
        check._value_, check.phrase = value, phrase
        return check


LINE_CHECKS = frozenset(
    {
        Check.EMPTY, Check.LONG, Check.COPY, Check.MARKUP, Check.CONTROL, Check.MOJIBAKE, Check.UNNORMALISED,
        Check.NUMBERS,
    }
)  # fmt: skip
"""The checks that need neither other pairs nor language identification."""

NEEDS_LANGUAGES = frozenset({Check.SWAPPED, Check.WRONG_LANGUAGE})
"""The checks that identify languages, for which the extra `languages` must be installed."""


MAX_CHARACTERS = 1500
"""A side with more characters than this is very long. For comparison, Europarl's longest sentences have 1,200."""

TAG = re.compile(
    r"</?(?:[abipqsu]|b[rx]|x|em|h[1-6]|hr|li|ol|ul|td|tr|th|dd|dl|dt|bpt|ept|ph|it|hi|ut|g|mrk|tu|tuv|seg|doc|div|span|"
    r"font|strong|small|big|sub|sup|table|tbody|script|style|img|input|form|html|body|head|title|link|meta|pre|code|"
    r"center|blockquote|srcset|refset|tstset|hl|mteval|dataset)(?:\s+[\w:.-]+\s*=\s*[\"'][^<>]*|\s+id=\d+)?\s*/?>",
    re.IGNORECASE,
)
ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,30}|#\d{1,7}|#x[0-9a-fA-F]{1,6});")

CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
"""C0 and C1 control characters except the tab, and the line and paragraph separators."""

MOJIBAKE = re.compile(
    "\ufffd|"  # the replacement character
    "[\u00c2\u00c3\u00c5\u00ce\u00cf\u00d0\u00d1][\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6"
    "\u02dc\u2013\u2014\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122](?![A-Z]?\\s|$)|"
    "\u00e2\u20ac[\u0080-\u00bf\u0153\u02dc\u2122\u201c\u201d\u00a6]|[\u00c2\u00c3][\u00a0-\u00bf](?=[a-z\\s]|$)"
)
"""UTF-8 that was decoded as Latin-1 or Windows-1252, and the replacement character for undecodable bytes."""

DIGITS = re.compile(r"\d\d")
NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f ]\d{3}(?!\d))*(?:[.,]\d+)?")
TIME = re.compile(r"(?<![\d.,:])\d{1,2}[.:h]\d\d(?![\d]|[.,:]\d)")
"""A time of day, which may be in 12-hour or 24-hour format."""

LEAST_DIGITS = 2
"""The minimum number of digits in the numbers that are compared, because small numbers are also written as words."""


def line_faults(source: str, target: str, checks: Collection[Check]) -> list[Check]:
    """Returns the faults of a single pair that belong to `checks`, in the order of `Check`.

    Checks that need other pairs or language identification are ignored.
    """
    if not source.strip() or not target.strip():
        return [Check.EMPTY] if Check.EMPTY in checks else []
    faults = []
    if Check.LONG in checks and max(len(source), len(target)) > MAX_CHARACTERS:
        faults.append(Check.LONG)
    # A pair without letters may be a copy, because numbers and signs are the same in every language.
    if Check.COPY in checks and source.strip() == target.strip() and any(map(str.isalpha, source)):
        faults.append(Check.COPY)
    both = f"{source}\t{target}"
    if Check.MARKUP in checks and any(
        ("<" in line and TAG.search(line)) or ("&" in line and ENTITY.search(line)) for line in (source, target)
    ):
        faults.append(Check.MARKUP)
    if Check.CONTROL in checks and not both.replace("\t", "").isprintable() and CONTROL.search(both):
        faults.append(Check.CONTROL)
    if Check.MOJIBAKE in checks and not both.isascii() and MOJIBAKE.search(both):
        faults.append(Check.MOJIBAKE)
    if Check.UNNORMALISED in checks and (
        normalise(source, "source") != source or normalise(target, "target") != target
    ):
        faults.append(Check.UNNORMALISED)
    if Check.NUMBERS in checks and numbers_differ(source, target):
        faults.append(Check.NUMBERS)
    return faults


def numbers_differ(source: str, target: str) -> bool:
    """Returns True if both sides have equally many numbers of several digits, but not the same numbers.

    If only one side has a number, this is not a fault, because the number may be written in words on the other side.
    Separators between digits are ignored, and so are times of day.
    """
    left, right = _numbers(source), _numbers(target)
    if left == right or left.total() != right.total():
        return False
    others = list((right - left).elements())
    for number in (left - right).elements():
        same = next((other for other in others if _is_same_number(number, other)), None)
        if same is None:
            return True
        others.remove(same)
    return False


def _is_same_number(number: str, other: str) -> bool:
    """Returns True if two numbers may be different ways of writing the same number.

    This covers thousands in digits or in words (12,000 and 12 thousand), years with or without their century (1980s and
    80s, 2010–2011 and 2010/11), and hours in 12-hour or 24-hour format.
    """
    short, long = sorted((number, other), key=len)
    is_thousands = _without_thousands(short) == _without_thousands(long)
    is_year = len(long) == 4 and len(short) == 2 and long.endswith(short)
    return (
        is_thousands or is_year or (len(long) == 2 and abs(int(short) - int(long)) == 12 and max(short, long) <= "24")
    )


def _without_thousands(number: str) -> str:
    """Returns a number without the groups of three zeros at its end."""
    zeros = len(number) - len(number.rstrip("0"))
    return number[: len(number) - zeros // 3 * 3]


def _numbers(text: str) -> Counter[str]:
    """Returns how many times each number with at least `LEAST_DIGITS` digits occurs. Separators are removed."""
    if not DIGITS.search(text):
        return Counter()
    numbers = ("".join(filter(str.isdecimal, number)) for number in NUMBER.findall(TIME.sub(" ", text)))
    return Counter(number for number in numbers if len(number) >= LEAST_DIGITS)
