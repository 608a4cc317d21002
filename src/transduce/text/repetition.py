"""Detects loops, in which a model repeats the same text again and again instead of ending its output."""

import re

_LOOP = re.compile(r"(\S.{0,39}?)\1{3,}")
"""Matches up to 40 characters that occur at least four times in a row."""

MIN_CHARACTERS = 8  # minimum length of a whole loop; "1000000" and "zzzz" are therefore not loops


def is_loop(output: str, source: str) -> bool:
    """Returns True if `output` contains the same text at least four times in a row and `source` does not."""
    return _repeats(output) and not _repeats(source)


def _repeats(text: str) -> bool:
    return any(len(match.group()) >= MIN_CHARACTERS for match in _LOOP.finditer(text))
