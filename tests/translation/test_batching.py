"""Batches of sentences: by length, and bounded in positions, attention weights and log-probabilities."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transduce.translation.batching import (
    ATTENTION_WEIGHTS,
    HYPOTHESIS_TOKENS,
    LOG_PROBABILITIES,
    max_lengths,
    sentence_batches,
)


@given(lengths=st.lists(st.integers(0, 30), max_size=40), budget=st.integers(1, 100))
def test_sentences_are_batched_by_length(lengths: list[int], budget: int) -> None:
    batches = sentence_batches(np.array(lengths, int), budget)
    assert sorted(number for batch in batches for number in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[number] for number in batch)
        assert len(batch) == 1 or len(batch) * longest <= budget
    firsts = [max(lengths[number] for number in batch) for batch in batches]
    assert firsts == sorted(firsts, reverse=True)


def test_batches_are_as_large_as_fits() -> None:
    batches = sentence_batches(np.array([3, 1, 2, 2, 9, 1]), 6)
    assert [batch.tolist() for batch in batches] == [[4], [0, 2], [3, 1, 5]]


def test_short_sentences_are_bounded_by_their_log_probabilities() -> None:
    """5,000 lines of one word under a beam of 4 and a vocabulary of 37,000 took 7.8 GB."""
    batches = sentence_batches(np.full(5000, 2), 8192, 4, 37_000)
    assert max(map(len, batches)) * 4 * 37_000 <= 8192 * LOG_PROBABILITIES
    assert len(batches) == 12
    assert len(sentence_batches(np.full(5000, 2), 8192, 4, 100)) == 2


def test_long_sentences_are_bounded_by_their_attention_weights() -> None:
    batches = sentence_batches(np.full(8, 2048), 8192)
    assert [len(batch) for batch in batches] == [2] * 4
    assert 8192 * ATTENTION_WEIGHTS == 2 * 2048**2


def test_wide_beams_are_bounded_by_their_key_value_caches() -> None:
    """8,192 source positions under a beam of 100 had 20 GB of keys and values in a base Transformer."""
    batches = sentence_batches(np.full(80, 100), 8192, 100, 320)
    assert {len(batch) for batch in batches} == {6, 2}
    assert 6 * 100 * 100 <= 8192 * HYPOTHESIS_TOKENS < 7 * 100 * 100
    assert len(sentence_batches(np.full(80, 100), 8192, 4, 320)) == 1


def test_a_translation_has_so_many_tokens_more_than_its_source() -> None:
    """At most the length of the input + 50, with the end symbols of both (section 6.1)."""
    sources, prefixes = [[5] * 3, [6] * 2, [7] * 4], [[], [8] * 9, []]
    assert max_lengths(sources, prefixes, 0, 50, 1000) == [54, 60, 55]
    assert max_lengths(sources, prefixes, 1, 50, 1000) == [53, 60, 54]  # the source tag has no translation
    assert max_lengths(sources, prefixes, 0, 50, 58) == [54, 58, 55]
