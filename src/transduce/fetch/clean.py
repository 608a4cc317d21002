"""Cleaning: which rows are kept, and what is mended in them; everything is counted."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from transduce.fetch.catalogue import Part
from transduce.fetch.sources import Row

__all__ = ["Account", "cleaned"]

BREAKS = re.compile("[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
"""What some programs take for the end of a line, and is none: a line ends at a newline."""

EMPTY, BAD = "with an empty side", "with a side that is no UTF-8"


class Account:
    """How many pairs were read, kept and dropped for which reason, and in how many a line break was mended."""

    def __init__(self) -> None:
        self.read, self.kept, self.mended = 0, 0, 0
        self.dropped: Counter[str] = Counter()

    def as_dictionary(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        return {"read": self.read, "kept": self.kept, "dropped": dict(self.dropped), "mended": self.mended}

    def __str__(self) -> str:
        dropped = "".join(f", {count:,} dropped {reason}" for reason, count in self.dropped.items())
        mended = f", line breaks inside of {self.mended:,} made spaces" if self.mended else ""
        return f"{self.kept:,} pairs kept{dropped}{mended}"


def cleaned(rows: Iterable[Row], part: Part, account: Account) -> Iterator[list[str]]:
    """The rows of `part` that are kept, noted in `account`.

    Line breaks other than newlines become spaces. Of a part with a known number of pairs nothing is dropped, and a
    `ValueError` is raised where a line is no UTF-8 or where the number is another.
    """
    for row in rows:
        account.read += 1
        texts = _decoded(row)
        reason = BAD if texts is None else EMPTY if not all(map(str.strip, texts)) else None
        if texts is not None and (reason is None or part.pairs is not None):
            account.kept += 1
            account.mended += any(map(BREAKS.search, texts))
            yield [BREAKS.sub(" ", text) for text in texts]
        elif part.pairs is not None:
            raise ValueError(f"{part.name}: line {account.read:,} is no UTF-8; the text is damaged")
        else:
            account.dropped[str(reason)] += 1
    if part.pairs is not None and account.read != part.pairs:
        raise ValueError(
            f"{part.name} has {account.read:,} pairs where {part.pairs:,} are expected; it is another text"
        )


def _decoded(row: Row) -> list[str] | None:
    """The sides as text; None where one is no UTF-8."""
    try:
        return [side.decode() for side in row]
    except UnicodeDecodeError:
        return None
