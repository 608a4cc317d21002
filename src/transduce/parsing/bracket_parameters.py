"""What the bracket measure counts: labels without weight, equal labels and words; read from EVALB's parameter files."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

IGNORED_KEYS = ("DEBUG", "MAX_ERROR")  # of EVALB the program: what it prints and when it gives up

Pairs = frozenset[tuple[str, str]]


class BracketParameters(NamedTuple):
    """Which labels, words and lengths are counted, in the terms of EVALB's parameter files.

    Pairs of equal labels and words stand in both orders.
    """

    name: str
    deleted_labels: frozenset[str]  # a part of speech goes with its word; a phrase leaves its parts
    deleted_for_length: frozenset[str] = frozenset()
    equal_labels: Pairs = frozenset()
    equal_words: Pairs = frozenset()
    cutoff: int = 40  # words of the longest sentence in the second summary
    labelled: bool = True
    quote_labels: frozenset[str] = frozenset()

    @property
    def signature(self) -> str:
        """The name, with a checksum of the values unless they are those of COLLINS."""
        if self[1:] == COLLINS[1:]:
            return COLLINS.name
        values = [sorted(value) if isinstance(value, frozenset) else value for value in self[1:]]
        return f"{self.name}-{hashlib.sha256(repr(values).encode()).hexdigest()[:8]}"

    @property
    def deleted_phrases(self) -> frozenset[str]:
        """The labels of phrases that are not counted: the deleted labels and those that equal one."""
        return self.deleted_labels | {one for one, other in self.equal_labels if other in self.deleted_labels}


def both_orders(pairs: Iterable[Sequence[str]]) -> Pairs:
    """Returns pairs in both orders."""
    return frozenset(ordered for one, other in pairs for ordered in ((one, other), (other, one)))


COLLINS = BracketParameters(
    name="COLLINS",
    deleted_labels=frozenset(("TOP", "-NONE-", ",", ":", "``", "''", ".")),
    deleted_for_length=frozenset(("-NONE-",)),
    equal_labels=both_orders([("ADVP", "PRT")]),
)
"""The values of COLLINS.prm, on which results on the Penn Treebank are reported (Collins 1997)."""


def parse_parameters(lines: Iterable[str], path: str) -> BracketParameters:
    """Returns the parameters in the lines of the file at `path`; the stem of its name is their name.

    Raises ValueError with file and line for an unknown key, and for a key with other values than it takes.
    """
    values: dict[str, list[list[str]]] = {key: [] for key in _ARGUMENTS}
    for number, line in enumerate(lines, start=1):
        key, *arguments = line.split() or [""]
        if not key or key.startswith("#") or key in IGNORED_KEYS:
            continue
        place = f"{path}: line {number}: {key}"
        if key not in _ARGUMENTS:
            raise ValueError(f"{place} is no parameter; the parameters are {', '.join((*_ARGUMENTS, *IGNORED_KEYS))}")
        form, shown = _ARGUMENTS[key]
        if not re.fullmatch(form, " ".join(arguments)):
            raise ValueError(f"{place} {' '.join(arguments)}: write {key} with {shown}")
        values[key].append(arguments)
    return _as_parameters(values, Path(path).stem)


# The form of the values of each key, in a pattern and in words.
_ARGUMENTS = {
    "CUTOFF_LEN": (r"\d{1,9}", "a number of words"),
    "LABELED": ("[01]", "1, or 0 for brackets without labels"),
    "DELETE_LABEL": (r"\S+", "one label"),
    "DELETE_LABEL_FOR_LENGTH": (r"\S+", "one label"),
    "QUOTE_LABEL": (r"\S+", "one label"),
    "EQ_LABEL": (r"\S+ \S+", "two labels"),
    "EQ_WORD": (r"\S+ \S+", "two words"),
}


def _as_parameters(values: dict[str, list[list[str]]], name: str) -> BracketParameters:
    """Returns the record of the values by key; the last number of a key counts."""

    def labels(key: str) -> frozenset[str]:
        return frozenset(label for (label,) in values[key])

    def number(key: str, default: int) -> int:
        return int(values[key][-1][0]) if values[key] else default

    return BracketParameters(
        name=name,
        deleted_labels=labels("DELETE_LABEL"),
        deleted_for_length=labels("DELETE_LABEL_FOR_LENGTH"),
        equal_labels=both_orders(values["EQ_LABEL"]),
        equal_words=both_orders(values["EQ_WORD"]),
        cutoff=number("CUTOFF_LEN", 40),
        labelled=bool(number("LABELED", 1)),
        quote_labels=labels("QUOTE_LABEL"),
    )
