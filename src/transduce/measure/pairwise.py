"""chrF of each text of a few against each other, as sacreBLEU computes it, without counting n-grams twice."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["pairwise_chrf"]

ORDER, BETA = 6, 2  # of chrF2: character n-grams, and the weight of recall


def pairwise_chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Returns [outputs, references], the chrF of each text as an output with each as its reference, 0 to 100."""
    bare = ["".join(text.split()) for text in texts]
    precision, recall = np.zeros((2, len(texts), len(texts)))
    orders = np.zeros((len(texts), len(texts)))
    for size in range(1, ORDER + 1):
        counts = _count_ngrams(bare, size)
        totals = counts.sum(1)
        matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])  # all at once would take gigabytes
        has_both = (totals[:, None] > 0) & (totals[None] > 0)
        precision += np.where(has_both, matches / np.maximum(totals[:, None], 1), 0)
        recall += np.where(has_both, matches / np.maximum(totals[None], 1), 0)
        orders += has_both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    divisor = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(divisor > 0, divisor, 1)


def _count_ngrams(texts: Sequence[str], size: int) -> NDArray[np.int64]:
    """Returns [texts, n-grams], how often each text has each n-gram of `size` characters."""
    ids: dict[str, int] = {}
    rows = [
        [ids.setdefault(text[place : place + size], len(ids)) for place in range(len(text) - size + 1)]
        for text in texts
    ]
    return np.array([np.bincount(row, minlength=len(ids)) for row in rows]).reshape(len(texts), -1)
