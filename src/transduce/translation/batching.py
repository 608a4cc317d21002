"""From lines to batches of tokens: encodes lines, reports lines that are too long, and groups the others by length."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.model.attention import MultiHeadAttention
from transduce.model.translation_model import TranslationModel
from transduce.text.token_vocabulary import TokenVocabulary

# Most subwords of a line. The attention weights of a line grow with the square of its length: with eight heads they
# take 0.5 GB at this length, and there are two copies in memory.
MAX_LINE_TOKENS = 4096

PORTION = 1 << 20  # characters encoded at once; the library needs about 240 bytes of memory for each

# How many numbers a batch may compute at once for each of its `batch_tokens`; 8,192 float32 numbers are 32 KiB.
LOG_PROBABILITIES = 8192
ATTENTION_WEIGHTS = 1024  # of one head
HYPOTHESIS_TOKENS = 8  # keys and values of the decoder: 24 KiB per token in a base Transformer


class LineTooLargeError(RuntimeError, MemoryError):
    """A line that does not fit into memory even alone; `fault` is the message without the line number."""

    def __init__(self, number: int, fault: str) -> None:
        super().__init__(f"line {number} {fault}")
        self.fault = fault


def count_heads(models: Sequence[TranslationModel]) -> int:
    """Returns the largest number of attention heads in `models`; 0 if none has attention."""
    attentions = (module for model in models for module in model.modules() if isinstance(module, MultiHeadAttention))
    return max((attention.spec.heads for attention in attentions), default=0)


def encode_lines(
    lines: Sequence[str], subwords: TokenVocabulary, max_tokens: int, heads: int, tags: Sequence[int] = ()
) -> list[list[int] | str]:
    """Returns, for each line, `tags` followed by its tokens, or an error message if it has more than `max_tokens`.

    A line with more characters than `max_tokens` subwords of the greatest length can hold is not encoded. The message
    names the memory that `heads` attention heads would need.
    """
    max_tokens -= 0 if max_tokens == MAX_LINE_TOKENS else len(tags)  # tags take positions, but hardly any memory
    longest = max_tokens * subwords.max_subword_bytes
    encoded: list[list[int] | str] = []
    for portion in _portions(["" if len(line) > longest else line for line in lines]):
        encoded += [
            [*tags, *tokens]
            if len(tokens) <= max_tokens
            else _fault(f"{len(tokens):,} subwords", max_tokens, len(tokens), heads)
            for tokens in subwords.encode(portion)
        ]
    for place, line in enumerate(lines):
        if len(line) > longest:
            tokens = len(line) // subwords.max_subword_bytes
            encoded[place] = _fault(f"over {longest:,} characters, hence too many subwords", max_tokens, tokens, heads)
    return encoded


def _portions(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Splits lines into portions of at most `PORTION` characters; a longer line is a portion by itself."""
    start = size = 0
    for place, line in enumerate(lines):
        if size + len(line) > PORTION and place > start:
            yield lines[start:place]
            start, size = place, 0
        size += len(line)
    yield lines[start:]


def _fault(length: str, max_tokens: int, tokens: int, heads: int) -> str:
    """Returns the message for a line of `length`, which has at least `tokens` subwords."""
    if max_tokens != MAX_LINE_TOKENS:
        return (
            f"has {length}, and this model has learned positions for {max_tokens}; "
            "split the line, or train a model with more positions, or a Transformer with sinusoids"
        )
    # Scores and weights of attention in float32.
    memory = f", and would need {2 * 4 * heads * tokens**2 / 1e9:,.1f} GB of memory" if heads else ""
    return f"has {length}, more than {max_tokens:,}{memory}; split the line"


class SentenceBatch(NamedTuple):
    """Lines that are translated together, as tokens: the input of a search engine."""

    indices: list[int]  # indices of the lines in the whole text; the draws of sampling depend on them
    sources: list[list[int]]  # source tags and tokens, without the end symbol
    prefixes: list[list[int]]  # tokens that each translation must begin with; empty if it is free
    bounds: list[int]  # most tokens of each translation, including the end symbol

    def select(self, numbers: Sequence[int]) -> "SentenceBatch":
        """Selects some lines, by their numbers in the batch."""
        return SentenceBatch(
            [self.indices[number] for number in numbers],
            [self.sources[number] for number in numbers],
            [self.prefixes[number] for number in numbers],
            [self.bounds[number] for number in numbers],
        )


def max_lengths(
    sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], tag_count: int, extra: int, limit: int
) -> list[int]:
    """Returns the most tokens that each translation may have, including the end symbol; never more than `limit`.

    A translation has at most `extra` tokens more than its source without tags, or than its prefix if that is longer
    (section 6.1).
    """
    pairs = zip(sources, prefixes, strict=True)
    return [min(max(len(tokens) - tag_count, len(prefix)) + 1 + extra, limit) for tokens, prefix in pairs]


def sentence_batches(
    lengths: NDArray[np.integer[Any]], batch_tokens: int, width: int = 1, vocabulary: int = 0
) -> list[NDArray[np.int64]]:
    """Groups sentences by length, longest first; returns the numbers of each batch's sentences.

    A search step continues `width` hypotheses for each sentence and computes `vocabulary` log-probabilities for each
    hypothesis. Every sentence is in exactly one batch. A batch of n sentences, the longest of length L, keeps four
    bounds:

    - n · L ≤ batch_tokens
    - n · L² ≤ batch_tokens · ATTENTION_WEIGHTS, the weights of an attention head
    - n · width · L ≤ batch_tokens · HYPOTHESIS_TOKENS, the key-value caches
    - n · width · vocabulary ≤ batch_tokens · LOG_PROBABILITIES

    A sentence that exceeds a bound by itself becomes a batch of its own.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        # Each bound gives the share of the budget that a sentence takes; the largest share counts.
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
