"""Learning subwords from a bounded, evenly spread sample of the corpora."""

import os
from collections.abc import Sequence

from transduce.corpus.checks import Report, check_pairs, name_of
from transduce.corpus.data import DataSpec
from transduce.corpus.entries import CorpusSpec
from transduce.corpus.readers import read_byte_pairs
from transduce.text.subwords import Bpe, Subwords, WordPiece
from transduce.text.token_vocabulary import TokenVocabulary
from transduce.text.tree_symbols import TreeSymbols

__all__ = ["learn_subwords", "limit_threads", "sample_pairs"]

Pair = tuple[str, str, str]
"""Place in the corpus, source, target."""

SAMPLE = 100_000
"""Pairs, at most, from which subwords are learnt: more would change only the rarest, and memory would grow."""

SAMPLE_BYTES = 1 << 25
"""Bytes, at most, of these pairs: learning from random text takes some 80 times as much memory."""


def learn_subwords(data: DataSpec, spec: Bpe | WordPiece) -> tuple[tuple[TokenVocabulary, TokenVocabulary], int]:
    """Learns the subwords of both sides from a sample; returns them and the number of all pairs.

    The target side of trees has the symbols of all trees instead.
    """
    symbols: set[str] = set()
    is_parser = data.tree_linearisation is not None
    sample, pairs = sample_pairs(data.train, data.longest, symbols if is_parser else None)
    if is_parser:
        words = Subwords.learn((source for _, source, _ in sample), spec)
        return (words, TreeSymbols(sorted(symbols))), pairs
    if spec.shared:
        both = Subwords.learn((side for _, *pair in sample for side in pair), spec)
        return (both, both), pairs
    source, target = (Subwords.learn((pair[place] for pair in sample), spec) for place in (1, 2))
    return (source, target), pairs


def sample_pairs(
    corpora: Sequence[CorpusSpec], max_length: int, symbols: set[str] | None = None
) -> tuple[list[Pair], int]:
    """Returns every pair, or every second, fourth, eighth…, and the number of all pairs.

    The sample has at most `SAMPLE` pairs, and at most `SAMPLE_BYTES` unless it is one pair. The words of all targets
    are added to `symbols`.
    """
    sample: list[Pair] = []
    size, stride, report = 0, 1, Report()
    all_pairs = (
        pair
        for corpus in corpora
        for pair in check_pairs(enumerate(read_byte_pairs(corpus), start=1), name_of(corpus), report, max_length)
    )
    for number, pair in enumerate(all_pairs):
        if symbols is not None:
            symbols.update(pair[2].split())
        if number % stride == 0:
            sample.append(pair)
            size += _size(pair)
        while len(sample) > SAMPLE or (size > SAMPLE_BYTES and len(sample) > 1):
            del sample[1::2]
            size = sum(map(_size, sample))
            stride *= 2
    return sample, report.read


def _size(pair: Pair) -> int:
    """Returns the number of bytes of both sides."""
    return sum(len(side.encode()) for side in pair[1:])


def limit_threads(threads: int) -> None:
    """Sets the threads that learn subwords, unless the environment sets them; effective before the first learning."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if threads > 1 else "false")
