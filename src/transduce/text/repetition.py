"""Loops: text that a model repeats again and again because it does not find the end."""

import re

_LOOP = re.compile(r"(\S.{0,39}?)\1{3,}")
"""Up to 40 characters, four times in a row."""

MIN_CHARACTERS = 8  # of all repetitions together, so that "1000000" and "zzzz" do not count as loops


def is_loop(output: str, source: str) -> bool:
    """Whether `output` has the same text four times in a row, and `source` does not."""
    return _repeats(output) and not _repeats(source)


def _repeats(text: str) -> bool:
    return any(len(match.group()) >= MIN_CHARACTERS for match in _LOOP.finditer(text))
