"""Combining marks, such as the vowel signs of Hindi and Thai, which `\\w` of a regular expression leaves out."""

import functools
import unicodedata

VARIATION_SELECTORS = range(0xFE00, 0xFE10)  # they choose a form of the character before, such as that of an emoji


@functools.cache
def combining_marks() -> str:
    """Returns all marks, to stand within brackets of a regular expression: above, below and after letters.

    They are ranges, which are searched faster than single characters. To find them takes 20 ms.
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
    """Returns whether a character is a combining mark."""
    return unicodedata.category(character) in ("Mn", "Mc")


def is_in_word(character: str) -> bool:
    """Returns whether a character is a letter, a digit or a mark: no word begins after it or ends before it."""
    return character.isalnum() or is_mark(character)
