"""Finds the sources of validation and test sets in a training corpus, using keys that ignore case and punctuation."""

import functools
import re
from collections.abc import Iterable

from transduce.runtime.combining_marks import combining_marks

ASCII_IGNORED = bytes(code for code in range(128) if not chr(code).isalpha())
DIGITS = re.compile(r"[\d_]+")


@functools.cache
def _ignored() -> re.Pattern[str]:
    """Returns a pattern that matches everything except letters, digits, underscores and combining marks.

    Digits are removed in a second pass, because a single pattern that also matches digits is slower.
    """
    return re.compile(rf"[^\w{combining_marks()}]+")


def text_key(text: str) -> bytes:
    """Returns a key that is equal for lines that differ only in case, punctuation, digits and white space.

    The key consists of the case-folded letters of `text`. If there are no letters, it is the text without surrounding
    white space.
    """
    folded = text.casefold()
    if folded.isascii():
        key = folded.encode().translate(None, ASCII_IGNORED)
    else:
        key = DIGITS.sub("", _ignored().sub("", folded)).encode("utf-8", "surrogatepass")
    return key or text.strip().encode("utf-8", "surrogatepass")


class HeldOutText:
    """The keys of the sources in a validation or test set.

    Each line takes about 100 bytes of memory, plus its letters.
    """

    def __init__(self, name: str, sources: Iterable[str]) -> None:
        self.name = name
        self._keys: dict[bytes, int] = {}
        self.lines = 0
        """The number of lines in the set that are not blank."""
        for source in sources:
            if source.strip():
                self.lines += 1
                letters = text_key(source)
                self._keys[letters] = self._keys.get(letters, 0) + 1
        self._contained: set[bytes] = set()

    def find(self, key: bytes) -> bool:
        """Returns True if the set has a source with this key, and records that the training data contains it."""
        if key not in self._keys:
            return False
        self._contained.add(key)
        return True

    @property
    def contained(self) -> int:
        """The number of lines in the set that `find` has found in the training data."""
        return sum(self._keys[key] for key in self._contained)

    @property
    def share(self) -> float:
        """The share of the set's lines that the training data contains."""
        return self.contained / self.lines if self.lines else 0.0
