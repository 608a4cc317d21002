"""The pairs of a text and its translation that are worth training on; the others are left out and counted."""

import hashlib
from collections import Counter

__all__ = ["PairFilter"]


class PairFilter:
    """Keeps each pair once, and none that lacks a side or is a copy; called with the shards in their order.

    The seen pairs take some 70 bytes of memory each.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """The number of pairs kept, and of lines left out by reason."""
        self._seen: set[int] = set()

    def __call__(self, text: str) -> str:
        """Returns the kept lines of `text`, each a pair with a tab between its sides."""
        kept = []
        for line in text.removesuffix("\n").split("\n") if text else ():
            reason = self._reason(line)
            self.counts[reason or "pairs"] += 1
            if reason is None:
                kept.append(f"{line}\n")
        return "".join(kept)

    def _reason(self, line: str) -> str | None:
        """Returns why a pair is left out; None for one that is kept."""
        translation, _, text = line.partition("\t")
        if not text.strip() or not translation.strip():
            return "lines without text or translation"
        if translation.strip() == text.strip():
            return "copies"
        digest = int.from_bytes(hashlib.blake2b(line.encode(), digest_size=8).digest())
        if digest in self._seen:
            return "duplicates"
        self._seen.add(digest)
        return None
