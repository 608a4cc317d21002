"""Splits a corpus into training, validation and test sets so that no two sets contain near-duplicates of each other.

Two pairs are near-duplicates if their sources or their targets differ only in case, punctuation, digits and white
space. Near-duplicates form a group, which also includes pairs that are connected only through other pairs. All pairs of
a group are assigned to the same set.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.inspection.held_out import text_key

PARTS = ("train", "validation", "test")


class CorpusSplit(NamedTuple):
    """The set to which each pair is assigned, as an index into `PARTS`, and the number of groups."""

    parts: NDArray[np.uint8]
    groups: int

    def count(self, part: str) -> int:
        """Returns the number of pairs that are assigned to `part`, which is one of `PARTS`."""
        return int((self.parts == PARTS.index(part)).sum())


def near_duplicate_groups(pairs: Iterable[tuple[str, str]]) -> NDArray[np.int64]:
    """Returns the group of each pair, identified by the index of the first pair in the group.

    Takes about 60 bytes of memory per pair.
    """
    hashes = array("q"), array("q")
    for number, pair in enumerate(pairs):
        for column, text in enumerate(pair):
            hashes[column].append(hash(text_key(text) if text.strip() else number))  # empty sides are not duplicates
    sides = [np.unique(np.array(side, np.int64), return_inverse=True)[1] for side in hashes]
    groups: NDArray[np.int64] = np.arange(len(hashes[0]), dtype=np.int64)
    while True:
        before = groups
        for side in sides:
            smallest = np.full(len(groups), len(groups), np.int64)
            np.minimum.at(smallest, side, groups)
            groups = smallest[side]
        if np.array_equal(before, groups):
            return groups


def split_groups(groups: NDArray[np.int64], validation: int, test: int, seed: int) -> CorpusSplit:
    """Assigns groups of pairs to the validation, test and training sets at random.

    The validation and test sets get exactly `validation` and `test` pairs, and the training set gets the rest. Raises
    ValueError if whole groups cannot fill these sets exactly, or if no pair is left to train on.
    """
    firsts, inverse, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if validation + test >= len(groups):
        raise ValueError(
            f"--validation {validation} and --test {test}: the corpus has {len(groups):,} pairs, and none is left to "
            "train on; take fewer"
        )
    missing = {1: validation, 2: test}
    of_group = np.zeros(len(firsts), np.uint8)
    for group in np.random.default_rng(seed).permutation(len(firsts)):
        for split, count in missing.items():
            if sizes[group] <= count:
                of_group[group] = split
                missing[split] -= int(sizes[group])
                break
    if any(missing.values()):
        raise ValueError(
            f"--validation {validation} and --test {test}: the {len(firsts):,} groups of near-duplicates do not fill "
            "these sets; take fewer"
        )
    return CorpusSplit(of_group[inverse], len(firsts))
