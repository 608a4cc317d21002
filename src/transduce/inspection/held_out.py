"""The sources of validation and test sets, and which of them a training corpus contains."""

from collections.abc import Iterable

from transduce.inspection.keys import text_key

__all__ = ["HeldOutText"]


class HeldOutText:
    """The keys of the sources of a validation or test set; takes some 100 bytes and the letters of each line."""

    def __init__(self, name: str, sources: Iterable[str]) -> None:
        self.name = name
        self._keys: dict[bytes, int] = {}
        self.lines = 0
        """The number of lines of the set that are not blank."""
        for source in sources:
            if source.strip():
                self.lines += 1
                letters = text_key(source)
                self._keys[letters] = self._keys.get(letters, 0) + 1
        self._contained: set[bytes] = set()

    def find(self, key: bytes) -> bool:
        """Judges whether the set has a source with this key, and remembers that training has it."""
        if key not in self._keys:
            return False
        self._contained.add(key)
        return True

    @property
    def contained(self) -> int:
        """The number of lines of the set that training contains, of the keys given to `find`."""
        return sum(self._keys[key] for key in self._contained)

    @property
    def share(self) -> float:
        """The share of the lines of the set that training contains."""
        return self.contained / self.lines if self.lines else 0.0
