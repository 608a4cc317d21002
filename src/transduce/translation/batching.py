"""Encodes lines as tokens, reports lines that are too long, and groups the others into batches by length."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.model.attention import MultiHeadAttention
from transduce.model.translation_model import TranslationModel
from transduce.text.token_vocabulary import TokenVocabulary

# The maximum number of subwords in a line. The memory for attention weights grows with the square of this number: with
# eight heads, a line of this length needs 0.5 GB for one copy of the weights, and there are two copies in memory.
MAX_LINE_TOKENS = 4096

PORTION = 1 << 20  # characters that are encoded at a time; the library needs about 240 bytes of memory for each

# The maximum number of values of each kind that a batch may compute at a time, per token of `batch_tokens`. As float32,
# 8,192 values take 32 KiB.
LOG_PROBABILITIES = 8192
ATTENTION_WEIGHTS = 1024  # in one attention head
HYPOTHESIS_TOKENS = 8  # tokens with cached decoder keys and values, which take 24 KiB per token in a base Transformer


class LineTooLargeError(RuntimeError, MemoryError):
    """Raised if a line does not fit in memory even by itself; `fault` is the message without the line number."""

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

    A line with too many characters for `max_tokens` subwords is rejected without being encoded. The error message
    states how much memory a model with `heads` attention heads would need for the line.
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
    """Splits lines into portions of at most `PORTION` characters; a longer line forms a portion of its own."""
    start = size = 0
    for place, line in enumerate(lines):
        if size + len(line) > PORTION and place > start:
            yield lines[start:place]
            start, size = place, 0
        size += len(line)
    yield lines[start:]


def _fault(length: str, max_tokens: int, tokens: int, heads: int) -> str:
    """Returns the error message for a line that is too long.

    `length` is a description of the line's length, and `tokens` is a lower bound on its number of subwords.
    """
    if max_tokens != MAX_LINE_TOKENS:
        return (
            f"has {length}, and this model has learned positions for {max_tokens}; "
            "split the line, or train a model with more positions, or a Transformer with sinusoids"
        )
    # Scores and weights of attention in float32.
    memory = f", and would need {2 * 4 * heads * tokens**2 / 1e9:,.1f} GB of memory" if heads else ""
    return f"has {length}, more than {max_tokens:,}{memory}; split the line"


class SentenceBatch(NamedTuple):
    """A batch of encoded lines that a search engine translates together."""

    indices: list[int]  # indices of the lines in the whole text, on which the random draws of sampling depend
    sources: list[list[int]]  # source tags and tokens, without EOS
    prefixes: list[list[int]]  # tokens with which each translation must begin; may be empty
    bounds: list[int]  # maximum number of tokens in each translation, including EOS

    def select(self, numbers: Sequence[int]) -> "SentenceBatch":
        """Returns a batch that contains only some lines; `numbers` are their indices in this batch."""
        return SentenceBatch(
            [self.indices[number] for number in numbers],
            [self.sources[number] for number in numbers],
            [self.prefixes[number] for number in numbers],
            [self.bounds[number] for number in numbers],
        )


def max_lengths(
    sources: Sequence[Sequence[int]], prefixes: Sequence[Sequence[int]], tag_count: int, extra: int, limit: int
) -> list[int]:
    """Returns the maximum number of tokens in each translation, including EOS.

    A translation may have up to `extra` tokens more than its source, or than its prefix if that is longer (section
    6.1). The `tag_count` source tags are not counted. The maximum never exceeds `limit`.
    """
    pairs = zip(sources, prefixes, strict=True)
    return [min(max(len(tokens) - tag_count, len(prefix)) + 1 + extra, limit) for tokens, prefix in pairs]


def sentence_batches(
    lengths: NDArray[np.integer[Any]], batch_tokens: int, width: int = 1, vocabulary: int = 0
) -> list[NDArray[np.int64]]:
    """Groups sentences into batches by length, longest first, and returns the indices of the sentences in each batch.

    Every sentence is in exactly one batch. In each step, a search extends `width` hypotheses of a sentence and computes
    `vocabulary` log-probabilities for each of them. A batch with n sentences, of which the longest has the length L,
    satisfies four conditions, which limit its memory:

    - n · L ≤ batch_tokens
    - n · L² ≤ batch_tokens · ATTENTION_WEIGHTS, for the attention weights of a head
    - n · width · L ≤ batch_tokens · HYPOTHESIS_TOKENS, for the key-value caches
    - n · width · vocabulary ≤ batch_tokens · LOG_PROBABILITIES, for the log-probabilities

    A sentence that violates a condition even by itself becomes a batch of its own.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(1, int(lengths[order[start]]))
        # Each condition determines how much of `batch_tokens` a sentence uses up. The largest of these amounts counts.
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
