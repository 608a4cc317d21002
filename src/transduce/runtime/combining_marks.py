"""Combining marks, for example the vowel signs of Hindi and Thai; `\\w` of a regular expression does not match them."""

import functools
import unicodedata

VARIATION_SELECTORS = range(0xFE00, 0xFE10)  # they choose a form of the character before, for example an emoji's


@functools.cache
def combining_marks() -> str:
    """Returns all marks above, below and after letters, for use inside the brackets of a regular expression.

    The marks are written as ranges, which are searched faster than single characters. Finding them takes 20 ms.
    """
    ranges: list[list[int]] = []
    for code in range(0x300, 0x20000):
        if unicodedata.category(chr(code)) in ("Mn", "Mc") and code not in VARIATION_SELECTORS:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def is_mark(character: str) -> bool:
    """Whether a character is a combining mark."""
    return unicodedata.category(character) in ("Mn", "Mc")


def is_in_word(character: str) -> bool:
    """Whether a character is a letter, a digit or a mark, so that no word begins after it or ends before it."""
    return character.isalnum() or is_mark(character)
