"""Recognises combining marks, such as the vowel signs of Hindi and Thai.

The class `\\w` of Python's regular expressions does not match them, although they are parts of words.
"""

import functools
import unicodedata

VARIATION_SELECTORS = range(0xFE00, 0xFE10)  # select a variant of the preceding character, for example of an emoji


@functools.cache
def combining_marks() -> str:
    """Returns all combining marks, formatted for use in a character class of a regular expression.

    The marks are written as ranges, which match faster than single characters. Computing them takes 20 ms.
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
    """Returns True if the character is a combining mark."""
    return unicodedata.category(character) in ("Mn", "Mc")


def is_in_word(character: str) -> bool:
    """Returns True if the character is part of a word: a letter, a digit or a combining mark."""
    return character.isalnum() or is_mark(character)
