"""The lengths of buckets with the least padding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.corpus.micro_batch import Ids

__all__ = ["fit_buckets"]


def fit_buckets(counts: NDArray[Any], buckets: int) -> Ids:
    """Returns the at most `buckets` bucket lengths with the least padding.

    `counts[length]` is the number of sequences of a length. Dynamic programming: the least cost of k buckets for all
    sequences up to a length is the minimum, over all shorter lengths, of the least cost of k − 1 buckets up to the
    shorter length plus the cost of one bucket for the sequences between.
    """
    lengths = np.flatnonzero(counts)
    counts_below = np.concatenate([[0], np.cumsum(counts[lengths])])
    # cost[first, last]: the positions of a bucket of length `last` for the sequences from length `first` on.
    cost = lengths * (counts_below[None, 1:] - counts_below[:-1, None]).astype(float)
    cost[np.tril_indices(len(lengths), -1)] = np.inf
    best, choices = cost[0], []
    for _ in range(min(buckets, len(lengths)) - 1):
        total = best[:-1, None] + cost[1:]
        choices.append(total.argmin(axis=0))
        best = total.min(axis=0)
    ends = [len(lengths) - 1]
    for choice in reversed(choices):
        ends.append(int(choice[ends[-1]]))
    return lengths[ends[::-1]].astype(np.int64)
