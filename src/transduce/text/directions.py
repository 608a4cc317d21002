"""Translation directions, which are pairs of a source and a target language."""

import re
from typing import NamedTuple


class Direction(NamedTuple):
    """A translation direction. A language is None if the recipe does not name it."""

    source: str | None
    target: str | None

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    def is_same(self, other: "Direction") -> bool:
        """Returns True if both directions have the same languages.

        Regions are ignored, and a missing code matches any language.
        """
        return all(is_same_language(*codes) for codes in zip(self, other, strict=True))


def is_same_language(one: str | None, other: str | None) -> bool:
    """Returns True if both codes denote the same language.

    Regions are ignored, and a missing code matches any language.
    """
    codes = [re.split("[-_]", code)[0].lower() for code in (one, other) if code is not None]
    return len(set(codes)) < 2
