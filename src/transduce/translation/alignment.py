"""Derives word alignments from the decoder's attention to the source."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from transduce.translation.results import Explanation

SPACES = ("▁", "\t", "\n")


def aligned_words(explanation: Explanation) -> list[tuple[int, int]]:
    """Aligns each target word with a source word and returns (source word index, target word index) pairs.

    Words are separated by spaces. For each pair of words, the attention weights from `subword_weights` are summed over
    their subwords. A target word is then aligned with the source word for which this sum is largest.
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
    """Returns the attention weights [target source] of the subwords, leaving out source tags and EOS.

    The weights are averaged over the heads of the second-to-last decoder layer, because the attention of this layer is
    most similar to a word alignment (Garg et al. 2019).
    """
    layer = explanation.cross[max(len(explanation.cross) - 2, 0)]
    weights: NDArray[np.float32] = layer.mean(axis=0)[:-1, explanation.tag_count : -1]
    return weights


def words_of_subwords(subwords: Sequence[str]) -> dict[int, int]:
    """Maps the index of each subword to the index of the word that it belongs to.

    Words are separated by "▁", tabs and newlines. A subword that consists only of these characters is left out.
    """
    words: dict[int, int] = {}
    number, is_inside = -1, False
    for place, subword in enumerate(subwords):
        is_inside = is_inside and not subword.startswith(SPACES)
        if subword.strip("".join(SPACES)):
            number += not is_inside
            words[place], is_inside = number, not subword.endswith(SPACES)
    return words
