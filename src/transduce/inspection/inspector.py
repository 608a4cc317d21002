"""Inspects the pairs of a corpus one by one. Repetitions, length ratios and scripts are checked after the last pair.

Each pair takes 42 bytes of memory, for three hash values, two lengths, two scripts, and sorting one column. Each fault
takes 8 bytes. Hash values have 64 bits, so the probability of a false duplicate among 10 million pairs is 3e-6.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.inspection.held_out import HeldOutText, text_key
from transduce.inspection.languages import LEARNED, SCRIPTS, PairLanguages, lines_in_other_scripts, script_of
from transduce.inspection.line_checks import LINE_CHECKS, NEEDS_LANGUAGES, Check, line_faults
from transduce.text.normalisation import normalised_parts

RATIO = 4.0
"""The factor by which the length ratio of a pair may differ from the median."""

SMOOTHING = 15.0
"""Characters added to both lengths of a ratio, because the ratios of short lines vary more."""

Numbers = NDArray[np.int64]
"""The positions of pairs in their corpus, counted from 1, in ascending order."""


SHOWN_NUMBERS = 8


def first_numbers(numbers: Numbers) -> str:
    """Returns the first numbers as text, followed by an ellipsis if there are more."""
    return ", ".join(f"{number:,}" for number in numbers[:SHOWN_NUMBERS]) + (
        ", …" if len(numbers) > SHOWN_NUMBERS else ""
    )


class Inspection(NamedTuple):
    """The numbers of the pairs with each fault, and statistics of both sides.

    The statistics are the length of each line in characters, and the number of lines in each script and language.
    """

    pairs: int
    faults: dict[Check, Numbers]
    first: dict[Check, Numbers]
    """For each kind of repetition, the number of the first pair that each of the pairs in `faults` repeats."""
    lengths: tuple[NDArray[np.uint32], NDArray[np.uint32]]
    scripts: tuple[dict[str, int], dict[str, int]]
    languages: tuple[dict[str, int], dict[str, int]]
    """The number of lines in each language among the first pairs. Empty if languages are not identified."""
    held_out: Sequence[HeldOutText]
    normalised: dict[str, int]
    """For each kind of change that the normaliser makes, the number of lines that it affects on both sides."""

    def share(self, check: Check) -> float:
        """Returns the share of pairs that have this fault."""
        return len(self.faults.get(check, ())) / self.pairs if self.pairs else 0.0


class PairInspector:
    """Inspects pairs one by one, but only for `checks`. Call `finish` to get the faults.

    `languages` is needed for the checks in `NEEDS_LANGUAGES`, and `held_out` for `Check.OVERLAP`. Without them, these
    checks are skipped.
    """

    def __init__(
        self, checks: Collection[Check], languages: PairLanguages | None = None, held_out: Sequence[HeldOutText] = ()
    ) -> None:
        self._checks = frozenset(checks) - (frozenset() if languages else NEEDS_LANGUAGES)
        self._line_checks = self._checks & LINE_CHECKS
        self._languages = languages if self._checks & NEEDS_LANGUAGES else None
        self._held_out = held_out if Check.OVERLAP in self._checks else ()
        self._waiting: list[tuple[int, str, str]] = []  # pairs whose languages have not been checked yet
        self._numbers: dict[Check, array[int]] = {check: array("q") for check in Check if check in self._checks}
        self._hashes = {check: array("q") for check in (Check.DUPLICATE, Check.NEAR_DUPLICATE, Check.SEVERAL_TARGETS)}
        self._normalised = Counter[str]()
        self._compares_pairs = not self._checks.isdisjoint(self._hashes)
        self._lengths = array("I"), array("I")
        self._scripts = bytearray(), bytearray()

    def add(self, source: str, target: str, *, is_utf8: bool = True) -> None:
        """Inspects the next pair.

        `is_utf8` must be False if the pair was not valid UTF-8, so that invalid bytes in it were replaced.
        """
        for side, line in enumerate((source, target)):
            self._lengths[side].append(len(line))
            if Check.WRONG_SCRIPT in self._checks:
                self._scripts[side].append(script_of(line))
        number = len(self._lengths[0])
        faults = line_faults(source, target, self._line_checks)
        if not is_utf8 and Check.ENCODING in self._checks:
            faults.append(Check.ENCODING)
        for fault in faults:
            self._numbers[fault].append(number)
        if Check.UNNORMALISED in faults:
            self._normalised.update(normalised_parts(source, "source"))
            self._normalised.update(normalised_parts(target, "target"))
        # A pair that has an empty side or is not UTF-8 does not count as a repetition, because a run drops it anyway.
        is_whole = is_utf8 and bool(source.strip()) and bool(target.strip())
        if self._compares_pairs:
            self._hashes[Check.DUPLICATE].append(hash((source, target) if is_whole else number))
            self._hashes[Check.SEVERAL_TARGETS].append(hash(source if is_whole else number))
        if Check.NEAR_DUPLICATE in self._checks:
            key = (text_key(source), text_key(target)) if is_whole else number
            self._hashes[Check.NEAR_DUPLICATE].append(hash(key))
        if self._held_out and is_whole:
            letters = text_key(source)
            contained = [text.find(letters) for text in self._held_out]  # a list, so that `find` is called on every set
            if any(contained):
                self._numbers[Check.OVERLAP].append(number)

        if self._languages and Check.COPY not in faults:
            self._waiting.append((number, source, target))
            if self._languages.sides is not None or len(self._waiting) == LEARNED:
                self._judge_languages()

    def _judge_languages(self) -> None:
        """Checks the languages of the waiting pairs. The first pairs determine which language is usual on each side."""
        if self._languages is None or not self._waiting:
            return
        if self._languages.sides is None:
            self._languages.learn([(source, target) for _, source, target in self._waiting])
        for number, source, target in self._waiting:
            for fault in self._languages.faults(source, target):
                if fault in self._checks:
                    self._numbers[fault].append(number)
        self._waiting.clear()

    def finish(self) -> Inspection:
        """Returns the faults of all pairs that were added."""
        self._judge_languages()
        faults = {check: np.array(numbers, np.int64) for check, numbers in self._numbers.items()}
        first: dict[Check, Numbers] = {}
        # A pair gets only the first fault that applies: duplicate, near-duplicate, or one of several targets.
        is_repeated = np.zeros(len(self._hashes[Check.DUPLICATE]), np.bool_)
        for check, hashes in self._hashes.items():
            if hashes:
                earliest = _earliest(np.frombuffer(hashes, np.int64))
                repeats = (earliest != np.arange(len(earliest))) & ~is_repeated
                is_repeated |= repeats
                if check in faults:
                    faults[check] = np.flatnonzero(repeats) + 1
                    first[check] = earliest[repeats] + 1
        lengths = np.array(self._lengths[0], np.uint32), np.array(self._lengths[1], np.uint32)
        if Check.RATIO in faults:
            has_both = (lengths[0] > 0) & (lengths[1] > 0)
            ratio = np.log((lengths[0] + SMOOTHING) / (lengths[1] + SMOOTHING))
            median = np.median(ratio[has_both]) if has_both.any() else 0.0
            faults[Check.RATIO] = np.flatnonzero(has_both & (np.abs(ratio - median) > np.log(RATIO))) + 1
        scripts = [np.frombuffer(bytes(side), np.uint8) for side in self._scripts]
        if Check.WRONG_SCRIPT in faults:
            wrong = lines_in_other_scripts(scripts[0]) | lines_in_other_scripts(scripts[1])
            faults[Check.WRONG_SCRIPT] = np.flatnonzero(wrong) + 1
        source, target = (
            {SCRIPTS[n]: int(count) for n, count in enumerate(np.bincount(side)) if count} for side in scripts
        )
        identified = self._languages.identified if self._languages else ({}, {})
        languages = dict(identified[0]), dict(identified[1])
        return Inspection(
            len(lengths[0]),
            faults,
            first,
            lengths,
            (source, target),
            languages,
            self._held_out,
            dict(self._normalised.most_common()),
        )


def _earliest(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns, for each value, the index of its first occurrence."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    is_new = np.append(True, ordered[1:] != ordered[:-1])
    earliest = np.empty(len(hashes), np.int64)
    earliest[order] = order[np.flatnonzero(is_new)[np.cumsum(is_new) - 1]]
    return earliest
