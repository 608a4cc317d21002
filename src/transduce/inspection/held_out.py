"""Finds the sources of validation and test sets in a training corpus, by keys that ignore case and punctuation."""

import functools
import re
from collections.abc import Iterable

from transduce.runtime.combining_marks import combining_marks

ASCII_IGNORED = bytes(code for code in range(128) if not chr(code).isalpha())
DIGITS = re.compile(r"[\d_]+")


@functools.cache
def _ignored() -> re.Pattern[str]:
    """Pattern of everything except letters and digits; one pattern that removes digits too is slower than two."""
    return re.compile(rf"[^\w{combining_marks()}]+")


def text_key(text: str) -> bytes:
    """A key that is equal for lines that differ only in case, punctuation, digits and white space.

    It is the letters of `text` without case or, if there are none, the text itself without spaces around it.
    """
    folded = text.casefold()
    if folded.isascii():
        key = folded.encode().translate(None, ASCII_IGNORED)
    else:
        key = DIGITS.sub("", _ignored().sub("", folded)).encode("utf-8", "surrogatepass")
    return key or text.strip().encode("utf-8", "surrogatepass")


class HeldOutText:
    """The keys of the sources of a validation or test set; takes about 100 bytes, and the letters, for each line."""

    def __init__(self, name: str, sources: Iterable[str]) -> None:
        self.name = name
        self._keys: dict[bytes, int] = {}
        self.lines = 0
        """Number of lines of the set that are not blank."""
        for source in sources:
            if source.strip():
                self.lines += 1
                letters = text_key(source)
                self._keys[letters] = self._keys.get(letters, 0) + 1
        self._contained: set[bytes] = set()

    def find(self, key: bytes) -> bool:
        """Whether the set has a source with this key; if so, remembers that training contains it."""
        if key not in self._keys:
            return False
        self._contained.add(key)
        return True

    @property
    def contained(self) -> int:
        """Number of lines of the set that training contains, among the keys given to `find`."""
        return sum(self._keys[key] for key in self._contained)

    @property
    def share(self) -> float:
        """Share of the set's lines that training contains."""
        return self.contained / self.lines if self.lines else 0.0
