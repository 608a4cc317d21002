"""Directions: the languages between which a text is translated."""

import re
from typing import NamedTuple


class Direction(NamedTuple):
    """A source language and a target language; None if a recipe does not name it."""

    source: str | None
    target: str | None

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    def is_same(self, other: "Direction") -> bool:
        """Whether both directions have the same languages, ignoring regions; a missing code fits any."""
        return all(is_same_language(*codes) for codes in zip(self, other, strict=True))


def is_same_language(one: str | None, other: str | None) -> bool:
    """Whether two codes mean the same language, ignoring regions; a missing code fits any language."""
    codes = [re.split("[-_]", code)[0].lower() for code in (one, other) if code is not None]
    return len(set(codes)) < 2
