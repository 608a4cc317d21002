"""Which source word each target word comes from, read off the attention over the encoder's output."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from transduce.translation.translator import Explanation

__all__ = ["aligned_words"]

SPACES = ("▁", "\t", "\n")


def aligned_words(explanation: Explanation) -> list[tuple[int, int]]:
    """(source word, target word) for each target word, words counted from 0 and cut at spaces.

    The last layer but one points most plainly at what is being translated (Garg et al. 2019); the mean of its heads
    is summed over the subwords of each pair of words, and a target word takes the source word with most.
    """
    weights = explanation.cross[max(len(explanation.cross) - 2, 0)].mean(axis=0)
    source, target = _words(explanation.source[:-1]), _words(explanation.target[:-1])
    if not source or not target:
        return []
    by_word = np.zeros((max(target.values()) + 1, max(source.values()) + 1))
    for (row, written), (column, read) in product(target.items(), source.items()):
        by_word[written, read] += weights[row, column]
    return [(int(row.argmax()), word) for word, row in enumerate(by_word)]


def _words(pieces: Sequence[str]) -> dict[int, int]:
    """The number of the word that each piece is part of, "▁" being a space; spaces alone are part of none.

    A tab or a newline is written as a space.
    """
    words: dict[int, int] = {}
    number, inside = -1, False
    for place, piece in enumerate(pieces):
        inside = inside and not piece.startswith(SPACES)
        if piece.strip("".join(SPACES)):
            number += not inside
            words[place], inside = number, not piece.endswith(SPACES)
    return words
