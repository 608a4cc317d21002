"""Cleaning: drops pairs that cannot be trained on, replaces stray line breaks, and counts both."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from transduce.fetch.catalogue import Part
from transduce.fetch.sources import Row

BREAKS = re.compile("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
"""Characters that some programs take for the end of a line; a line of a corpus ends at a newline only."""

EMPTY, NOT_UTF8 = "with an empty side", "with a side that is no UTF-8"


class CleaningCounts:
    """The numbers of pairs read, kept, dropped by reason, and mended (a line break became a space)."""

    def __init__(self) -> None:
        self.read, self.kept, self.mended = 0, 0, 0
        self.dropped: Counter[str] = Counter()

    def as_dictionary(self) -> dict[str, Any]:
        """Returns the numbers as JSON values."""
        return {"read": self.read, "kept": self.kept, "dropped": dict(self.dropped), "mended": self.mended}

    def __str__(self) -> str:
        dropped = "".join(f", {count:,} dropped {reason}" for reason, count in self.dropped.items())
        mended = f", line breaks replaced by spaces in {self.mended:,}" if self.mended else ""
        return f"{self.kept:,} pairs kept{dropped}{mended}"


def clean(rows: Iterable[Row], part: Part, counts: CleaningCounts) -> Iterator[list[str]]:
    """Yields the rows of `part` that are kept, as text, and counts all rows in `counts`.

    Line breaks within a side become spaces. A part with a published number of pairs loses none; raises
    ValueError where a line of such a part is not UTF-8 or its number of pairs differs.
    """
    for row in rows:
        counts.read += 1
        try:
            texts = [side.decode() for side in row]
        except UnicodeDecodeError:
            if part.pairs is not None:
                raise ValueError(f"{part.name}: line {counts.read:,} is not UTF-8; the text is damaged") from None
            counts.dropped[NOT_UTF8] += 1
            continue
        if part.pairs is None and not all(map(str.strip, texts)):
            counts.dropped[EMPTY] += 1
            continue
        counts.kept += 1
        counts.mended += any(map(BREAKS.search, texts))
        yield [BREAKS.sub(" ", text) for text in texts]
    if part.pairs is not None and counts.read != part.pairs:
        raise ValueError(
            f"{part.name} has {counts.read:,} pairs where {part.pairs:,} are expected; it is not the published text"
        )
