"""Which source word each target word comes from, read off the attention over the encoder's output."""

from collections.abc import Sequence

import numpy as np

from transduce.translator import Explanation

__all__ = ["aligned_words"]


def aligned_words(explanation: Explanation) -> list[tuple[int, int]]:
    """(source word, target word) for each target word, words counted from 0 and cut at spaces.

    The last layer but one points most plainly at what is being translated (Garg et al. 2019); the mean of its heads
    is summed over the subwords of each pair of words, and a target word takes the source word with most.
    """
    weights = explanation.cross[max(len(explanation.cross) - 2, 0)].mean(axis=0)[:-1, :-1]
    if not weights.size:
        return []
    source, target = _words(explanation.source[:-1]), _words(explanation.target[:-1])
    by_word = np.zeros((target[-1] + 1, source[-1] + 1))
    np.add.at(by_word, (np.array(target)[:, None], np.array(source)[None, :]), weights)
    return [(int(row.argmax()), word) for word, row in enumerate(by_word)]


def _words(pieces: Sequence[str]) -> list[int]:
    """The number of the word that each piece is part of; "▁" begins a word."""
    starts = [index > 0 and piece.startswith("▁") for index, piece in enumerate(pieces)]
    return np.cumsum(starts).astype(int).tolist()
