"""Word alignment from the decoder's attention to the source."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from transduce.translation.results import Explanation

__all__ = ["aligned_words"]

SPACES = ("▁", "\t", "\n")


def aligned_words(explanation: Explanation) -> list[tuple[int, int]]:
    """Returns (source word, target word) for each target word, counted from 0; words end at spaces.

    The weights are the mean over the heads of the last layer but one, which is most like an alignment (Garg et al.
    2019), summed over the subwords of each pair of words. A target word is aligned to the source word with the largest
    weight.
    """
    tags = explanation.source_tags
    weights = explanation.cross[max(len(explanation.cross) - 2, 0)].mean(axis=0)[:, tags:]
    source, target = _words(explanation.source[tags:-1]), _words(explanation.target[:-1])
    if not source or not target:
        return []
    by_word = np.zeros((max(target.values()) + 1, max(source.values()) + 1))
    for (row, target_word), (column, source_word) in product(target.items(), source.items()):
        by_word[target_word, source_word] += weights[row, column]
    return [(int(row.argmax()), word) for word, row in enumerate(by_word)]


def _words(subwords: Sequence[str]) -> dict[int, int]:
    """Maps the place of each subword to the number of its word; a subword of spaces alone has none.

    "▁", tab and newline are spaces.
    """
    words: dict[int, int] = {}
    number, is_inside = -1, False
    for place, subword in enumerate(subwords):
        is_inside = is_inside and not subword.startswith(SPACES)
        if subword.strip("".join(SPACES)):
            number += not is_inside
            words[place], is_inside = number, not subword.endswith(SPACES)
    return words
