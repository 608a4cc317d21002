"""Learning subwords from a bounded, evenly spread sample of the corpora."""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.pair_checks import CheckedPair, Report, check_pairs, name_of
from transduce.corpus.readers import read_byte_pairs
from transduce.inspection.line_checks import Check
from transduce.text.normalisation import Side, normalise
from transduce.text.subword_training import MIN_SIZE, Bpe, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.token_vocabulary import TokenVocabulary, ids_of_tags, names_languages, target_side

SAMPLE = 100_000
"""Pairs, at most, from which subwords are learned: more would change only the rarest, and memory would grow."""

SAMPLE_BYTES = 1 << 25
"""Bytes, at most, of these pairs: learning from random text takes some 80 times as much memory."""


def learn_subwords(
    data: DataSpec, spec: Bpe | WordPiece, dropped: Sequence[Mapping[int, Check]]
) -> tuple[tuple[TokenVocabulary, TokenVocabulary], int]:
    """Learns the subwords of both sides from a sample without the `dropped` pairs of each corpus.

    Returns them and the number of all pairs.

    The source side has the source tags too. The target side of trees has the symbols of all trees instead.
    """
    tags = data.source_tags
    symbols: set[str] = set()
    is_parser = data.tree_linearisation is not None
    sample, pairs = sample_pairs(data.train, data.longest, symbols if is_parser else None, dropped)
    if is_parser:  # the words of treebanks stand between spaces, as their parser has them
        words = _learn((pair.source for pair in sample), spec, None, tags)
        return (words, SymbolVocabulary(sorted(symbols))), pairs
    as_source: Side | None = "source" if spec.normalise else None
    as_target: Side | None = "target" if spec.normalise else None
    sources = _normalised((pair.source for pair in sample), as_source)
    targets = _normalised((pair.target for pair in sample), as_target)
    if spec.shared:
        both = _learn(chain.from_iterable(zip(sources, targets, strict=True)), spec, as_source, tags)
        return (both, target_side(both)), pairs
    source = _learn(sources, spec, as_source, tags)
    return (source, _learn(targets, spec, as_target, [])), pairs


def _normalised(lines: Iterable[str], side: Side | None) -> Iterable[str]:
    return lines if side is None else (normalise(line, side) for line in lines)


def _learn(lines: Iterable[str], spec: Bpe | WordPiece, side: Side | None, tags: Sequence[str]) -> Subwords:
    """Learns as many subwords as `spec.size` leaves beside the tags, and adds the tags."""
    size = max(spec.size - len(tags), MIN_SIZE if spec.kind == "bpe" else MIN_SIZE + 256)
    return Subwords.learn(lines, spec.replaced(size=size), side).with_tags(tags)


def check_tags(data: DataSpec, source: TokenVocabulary) -> None:
    """Raises ValueError where the source vocabulary of another model lacks a tag of the training corpora."""
    for corpus in data.train:
        try:
            tag_ids(data, corpus, source)
        except ValueError as error:
            raise ValueError(f"--from: {name_of(corpus)}: {error}") from None


def tag_ids(data: DataSpec, corpus: CorpusSpec, source: TokenVocabulary) -> list[int]:
    """Returns the ids of the tags before each source of a corpus; raises ValueError for one that `source` lacks."""
    names_language = names_languages(source) or len(data.directions) > 1
    return ids_of_tags(source, data.tags_before(corpus, names_language=names_language))


def sample_pairs(
    corpora: Sequence[CorpusSpec],
    max_length: int,
    symbols: set[str] | None = None,
    dropped: Sequence[Mapping[int, Check]] = (),
) -> tuple[list[CheckedPair], int]:
    """Returns every pair, or every second, fourth, eighth…, and the number of all pairs.

    The sample has at most `SAMPLE` pairs, and at most `SAMPLE_BYTES` unless it is one pair. The words of all targets
    are added to `symbols`. The `dropped` pairs of each corpus are left out.
    """
    sample: list[CheckedPair] = []
    size, stride, report = 0, 1, Report()
    all_pairs = (
        pair
        for corpus, numbers in zip(corpora, dropped or [{}] * len(corpora), strict=True)
        for pair in check_pairs(
            enumerate(read_byte_pairs(corpus), start=1), name_of(corpus), report, max_length, numbers
        )
    )
    for number, pair in enumerate(all_pairs):
        if symbols is not None:
            symbols.update(pair.target.split())
        if number % stride == 0:
            sample.append(pair)
            size += _size(pair)
        while len(sample) > SAMPLE or (size > SAMPLE_BYTES and len(sample) > 1):
            del sample[1::2]
            size = sum(map(_size, sample))
            stride *= 2
    return sample, report.read


def _size(pair: CheckedPair) -> int:
    """Returns the number of bytes of both sides."""
    return len(pair.source.encode()) + len(pair.target.encode())


def limit_threads(threads: int) -> None:
    """Sets the threads that learn subwords, unless the environment sets them; effective before the first learning."""
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if threads > 1 else "false")
