"""Word alignment from the decoder's attention to the source."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from transduce.translation.results import Explanation

SPACES = ("▁", "\t", "\n")


def aligned_words(explanation: Explanation) -> list[tuple[int, int]]:
    """Aligns each target word to a source word: (source word, target word), counted from 0; words end at spaces.

    `subword_weights` are summed over the subwords of each pair of words. A target word is aligned to the source word
    with the largest weight.
    """
    weights = subword_weights(explanation)
    source = words_of_subwords(explanation.source[explanation.tag_count : -1])
    target = words_of_subwords(explanation.target[:-1])
    if not source or not target:
        return []
    by_word = np.zeros((max(target.values()) + 1, max(source.values()) + 1))
    for (row, target_word), (column, source_word) in product(target.items(), source.items()):
        by_word[target_word, source_word] += weights[row, column]
    return [(int(row.argmax()), word) for word, row in enumerate(by_word)]


def subword_weights(explanation: Explanation) -> NDArray[np.float32]:
    """Returns the attention of each target subword to each source subword, without tags and end symbols.

    The weights are the mean over the heads of the second-to-last layer, which is most like an alignment (Garg et al.
    2019).
    """
    layer = explanation.cross[max(len(explanation.cross) - 2, 0)]
    weights: NDArray[np.float32] = layer.mean(axis=0)[:-1, explanation.tag_count : -1]
    return weights


def words_of_subwords(subwords: Sequence[str]) -> dict[int, int]:
    """Maps the index of each subword to the number of its word; a subword that is only spaces has no word.

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
