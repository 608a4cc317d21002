"""Batches of sentences of similar length, whose search or scoring fits a budget of memory."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SentenceBatch", "sentence_batches"]

# Numbers that a batch may compute at once for each of its `batch_tokens`; 8,192 float32 numbers are 32 KiB.
LOG_PROBABILITIES = 8192
ATTENTION_WEIGHTS = 1024  # a head
HYPOTHESIS_TOKENS = 8  # keys and values of the decoder: a base Transformer has 24 KiB of them a token


class SentenceBatch(NamedTuple):
    """Lines that are translated at once."""

    places: list[int]  # of the lines in the text they come from
    sources: list[list[int]]  # tokens without the end symbol
    prefixes: list[list[int]]  # tokens that each translation must begin with

    def select(self, numbers: Sequence[int]) -> "SentenceBatch":
        """Returns the batch of some of its lines, by their numbers in the batch."""
        places, sources, prefixes = self
        return SentenceBatch(
            [places[number] for number in numbers],
            [sources[number] for number in numbers],
            [prefixes[number] for number in numbers],
        )

    def max_lengths(self, tag_count: int, extra: int, limit: int) -> list[int]:
        """Returns the most tokens of each translation, end symbol included, and `limit` at most.

        A translation has at most as many tokens as its source without tags, or as its prefix, and `extra` more
        (section 6.1).
        """
        pairs = zip(self.sources, self.prefixes, strict=True)
        return [min(max(len(tokens) - tag_count, len(prefix)) + 1 + extra, limit) for tokens, prefix in pairs]


def sentence_batches(
    lengths: NDArray[np.integer[Any]], batch_tokens: int, width: int = 1, vocabulary: int = 0
) -> list[NDArray[np.int64]]:
    """Groups sentences by length, the longest first; returns the numbers of each batch's sentences.

    A search step continues `width` hypotheses a sentence and computes `vocabulary` log-probabilities for each. A batch
    of n sentences, the longest of length L, keeps four bounds, and every sentence is in exactly one batch:

    - n · L ≤ batch_tokens
    - n · L² ≤ batch_tokens · ATTENTION_WEIGHTS, the weights of an attention head
    - n · width · L ≤ batch_tokens · HYPOTHESIS_TOKENS, the key-value caches
    - n · width · vocabulary ≤ batch_tokens · LOG_PROBABILITIES

    A sentence that alone exceeds a bound is a batch by itself.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        # A sentence takes the largest of four shares of the budget.
        share = max(
            longest,
            longest**2 / ATTENTION_WEIGHTS,
            width * longest / HYPOTHESIS_TOKENS,
            width * vocabulary / LOG_PROBABILITIES,
        )
        rows = max(1, int(batch_tokens / share))
        batches.append(order[start : start + rows])
        start += rows
    return batches
