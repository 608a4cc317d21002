"""Learns subwords from a bounded, evenly spread sample of the corpora, and extends vocabularies of existing models."""

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from transduce.corpus.corpus_kinds import CorpusSpec
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.pair_checks import CheckedPair, Report, check_pairs, name_of
from transduce.corpus.readers import read_byte_pairs
from transduce.inspection.line_checks import Check
from transduce.text.normalisation import Side, normalise
from transduce.text.sentence_pieces import SentencePieces
from transduce.text.subword_training import MIN_SIZE, Bpe, Pretokenised, SentencePiece, SubwordsSpec, WordPiece
from transduce.text.subwords import Subwords
from transduce.text.symbol_vocabulary import SymbolVocabulary
from transduce.text.token_vocabulary import (
    TokenVocabulary,
    ids_of_tags,
    names_languages,
    share_subwords,
    target_side,
)
from transduce.text.vocabulary_growth import check_can_grow, grow_subwords

SAMPLE = 100_000
"""The maximum number of pairs from which subwords are learned.

More pairs would change only the rarest subwords and take more memory.
"""

SAMPLE_BYTES = 1 << 25
"""The maximum size of these pairs in bytes. Learning from random text takes about 80 times as much memory."""


def learn_subwords(
    data: DataSpec, spec: SubwordsSpec, dropped: Sequence[Mapping[int, Check]]
) -> tuple[tuple[TokenVocabulary, TokenVocabulary], int]:
    """Learns the subwords of both sides from a sample of the training corpora.

    The sample leaves out the `dropped` pairs of each corpus. SentencePiece models are loaded instead of learned if the
    recipe names their files. The source vocabulary also contains the source tags. For trees, the target vocabulary
    consists of the symbols of all trees instead of subwords. Returns the two vocabularies and the total number of
    pairs.
    """
    tags = data.source_tags
    is_parser = data.tree_linearisation is not None
    tokens = Tokens() if is_parser or spec.kind == "pretokenised" else None
    sample, pairs = sample_pairs(data.train, data.max_length, tokens, dropped)
    texts = [(pair.source, pair.target) for pair in sample]
    if data.noise is not None:  # so that words in capitals are not split into letters
        texts = data.noise.cased(texts)
    if spec.kind in ("sentencepiece", "pretokenised"):
        _check_kind(data, spec.kind)
    if spec.kind == "sentencepiece":
        return _sentence_pieces(spec, texts), pairs
    if spec.kind == "pretokenised":
        assert tokens is not None
        return _vocabularies_of_tokens(spec, tokens), pairs
    if is_parser:  # words in a treebank are separated by spaces, as in the parser's input
        words = _learn((pair.source for pair in sample), spec, None, tags)
        assert tokens is not None
        return (words, SymbolVocabulary.of_counts(tokens.target)), pairs
    as_source: Side | None = "source" if spec.normalise else None
    as_target: Side | None = "target" if spec.normalise else None
    sources = _normalised((source for source, _ in texts), as_source)
    targets = _normalised((target for _, target in texts), as_target)
    if spec.shared:
        both = _learn(chain.from_iterable(zip(sources, targets, strict=True)), spec, as_source, tags)
        return (both, target_side(both)), pairs
    source = _learn(sources, spec, as_source, tags)
    return (source, _learn(targets, spec, as_target, [])), pairs


def _check_kind(data: DataSpec, kind: str) -> None:
    """Raises ValueError if the corpora need something that subwords of this `kind` do not support.

    Neither `sentencepiece` nor `pretokenised` supports trees or source tags, and `pretokenised` does not support noise.
    """
    if data.tree_linearisation is not None or data.source_tags:
        what = "trees" if data.tree_linearisation is not None else "corpora of several directions or with tags"
        raise ValueError(f"`subwords.kind: {kind}` is not for {what}: set `kind: bpe`")
    if kind == "pretokenised" and data.noise is not None:
        raise ValueError("`data.noise` changes text before it is cut, and this text is cut already: leave it out")


class Tokens:
    """Counts the whitespace-separated tokens in the sources and in the targets of corpora."""

    def __init__(self) -> None:
        self.source, self.target = Counter[str](), Counter[str]()

    def add(self, pair: CheckedPair) -> None:
        """Counts the tokens of a pair."""
        self.source.update(pair.source.split())
        self.target.update(pair.target.split())


def _vocabularies_of_tokens(spec: Pretokenised, tokens: Tokens) -> tuple[TokenVocabulary, TokenVocabulary]:
    """Builds the vocabularies of pretokenised text from the counts of its tokens."""
    if spec.shared:
        both = SymbolVocabulary.of_counts(tokens.source + tokens.target, spec.size)
        return both, both
    return SymbolVocabulary.of_counts(tokens.source, spec.size), SymbolVocabulary.of_counts(tokens.target, spec.size)


def _sentence_pieces(spec: SentencePiece, texts: Sequence[tuple[str, str]]) -> tuple[TokenVocabulary, TokenVocabulary]:
    """Returns the SentencePiece models of both sides.

    They are loaded if the recipe names their files, and otherwise learned.
    """
    if spec.model_files:
        sides = [SentencePieces.of_model(path.read_bytes(), str(path)) for path in spec.model_files]
        return sides[0], sides[-1] if len(sides) > 1 or spec.shared else SentencePieces(sides[0].content)
    if spec.shared:
        both = SentencePieces.learn(chain.from_iterable(texts), spec, keeps_characters=False)
        return both, both
    source = SentencePieces.learn((source for source, _ in texts), spec, keeps_characters=False)
    return source, SentencePieces.learn((target for _, target in texts), spec, keeps_characters=True)


def _normalised(lines: Iterable[str], side: Side | None) -> Iterable[str]:
    return lines if side is None else (normalise(line, side) for line in lines)


def _learn(lines: Iterable[str], spec: Bpe | WordPiece, side: Side | None, tags: Sequence[str]) -> Subwords:
    """Learns the subwords of a vocabulary of `spec.size` entries, which includes the tags."""
    size = max(spec.size - len(tags), MIN_SIZE if spec.kind == "bpe" else MIN_SIZE + 256)
    return Subwords.learn(lines, spec.replaced(size=size), side).with_tags(tags)


def check_tags(data: DataSpec, source: TokenVocabulary) -> None:
    """Raises ValueError if the source vocabulary of an existing model lacks a tag that the training corpora need."""
    for corpus in data.train:
        try:
            tag_ids(data, corpus, source)
        except ValueError as error:
            raise ValueError(f"--from: {name_of(corpus)}: {error}") from None


def tag_ids(data: DataSpec, corpus: CorpusSpec, source: TokenVocabulary) -> list[int]:
    """Returns the ids of the tags that precede every source sentence of a corpus.

    Raises ValueError if the vocabulary `source` lacks one of them.
    """
    names_language = names_languages(source) or len(data.directions) > 1
    return ids_of_tags(source, data.tags_before(corpus, names_language=names_language))


def sample_pairs(
    corpora: Sequence[CorpusSpec],
    max_length: int,
    tokens: Tokens | None = None,
    dropped: Sequence[Mapping[int, Check]] = (),
) -> tuple[list[CheckedPair], int]:
    """Returns an evenly spread sample of the pairs in the corpora, and the total number of pairs.

    The sample consists of every pair or, if there are too many, of every second, fourth or eighth pair and so on. It
    has at most `SAMPLE` pairs, and at most `SAMPLE_BYTES` bytes unless a single pair is larger. The `dropped` pairs of
    each corpus are left out. If `tokens` is given, it counts the tokens of all pairs and not only of the sample.
    """
    sample: list[CheckedPair] = []
    size, stride, report = 0, 1, Report()
    all_pairs = (
        pair
        for corpus, numbers in zip(corpora, dropped or [{}] * len(corpora), strict=True)
        for pair in check_pairs(enumerate(read_byte_pairs(corpus), start=1), corpus, report, max_length, numbers)
    )
    for number, pair in enumerate(all_pairs):
        if tokens is not None:
            tokens.add(pair)
        if number % stride == 0:
            sample.append(pair)
            size += _size(pair)
        while len(sample) > SAMPLE or (size > SAMPLE_BYTES and len(sample) > 1):
            del sample[1::2]
            size = sum(map(_size, sample))
            stride *= 2
    return sample, report.read


def _size(pair: CheckedPair) -> int:
    return len(pair.source.encode()) + len(pair.target.encode())


def limit_threads(threads: int) -> None:
    """Sets the number of threads for learning subwords, unless environment variables already set it.

    This function must be called before subwords are learned.
    """
    os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true" if threads > 1 else "false")


_log = logging.getLogger("transduce")

Vocabularies = tuple[TokenVocabulary, TokenVocabulary]
"""The source vocabulary and the target vocabulary. If both sides share one, the second is `target_side` of the first.
"""


def check_vocabularies(sides: Vocabularies) -> None:
    """Raises ValueError unless the vocabularies can grow.

    Byte-level BPE can grow, and so can a target vocabulary that consists of symbols.
    """
    check_can_grow(sides[0], "source")
    if not isinstance(sides[1], SymbolVocabulary):
        check_can_grow(sides[1], "target")


def vocabulary_checksums(sides: Vocabularies) -> tuple[str, ...]:
    """Returns the SHA-256 checksum of the vocabulary of each side."""
    return tuple(hashlib.sha256(side.as_json().encode()).hexdigest() for side in sides)


def grow_vocabularies(
    sides: Vocabularies,
    count: int,
    data: DataSpec,
    dropped: Sequence[Mapping[int, Check]],
) -> Vocabularies:
    """Adds at most `count` subwords to each vocabulary, learned from a sample of the training corpora.

    The sample leaves out the `dropped` pairs of each corpus. A vocabulary that both sides share grows only once, from
    the text of both sides. A vocabulary of tree symbols instead gains every symbol of the corpora that it lacks. Logs
    the sizes of the vocabularies and the mean number of subwords per sentence, before and after.
    """
    check_vocabularies(sides)
    tokens = Tokens() if isinstance(sides[1], SymbolVocabulary) else None
    pairs, _ = sample_pairs(data.train, data.max_length, tokens, dropped)
    texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
    normalised = [
        side.normalise(lines) if isinstance(side, Subwords) else lines for side, lines in zip(sides, texts, strict=True)
    ]
    if share_subwords(sides):
        both = _grow(sides[0], [*normalised[0], *normalised[1]], count)
        grown = both, target_side(both)
    else:
        target_lines = [" ".join(tokens.target)] if tokens is not None else normalised[1]
        grown = _grow(sides[0], normalised[0], count), _grow(sides[1], target_lines, count)
    names = "source", "target"
    gains = [_gain(*side) for side in zip(sides, grown, texts, strict=True)]
    rows = list(zip([f"{name} " for name in names], sides, grown, gains, strict=True))
    if share_subwords(sides):
        rows = [("", sides[0], grown[0], ", ".join(f"{name} {gain}" for name, gain in zip(names, gains, strict=True)))]
    for name, before, after, gain in rows:
        sizes = f"grown from {before.size:,} to {after.size:,}"
        if isinstance(after, SymbolVocabulary):
            _log.info(f"symbols of trees {sizes}")
        else:
            _log.info(f"{name}vocabulary {sizes} subwords: {gain} subwords a sentence of the new text")
    return grown


def _grow(side: TokenVocabulary, lines: Sequence[str], count: int) -> TokenVocabulary:
    """Adds subwords to the vocabulary of one side. If it consists of tree symbols, adds the missing symbols instead."""
    if isinstance(side, SymbolVocabulary):
        return side.grown(lines)
    assert isinstance(side, Subwords), "check_vocabularies has refused it"
    return grow_subwords(side, lines, count)


def _gain(before: TokenVocabulary, after: TokenVocabulary, lines: Sequence[str]) -> str:
    """Returns the mean number of subwords per sentence before and after the growth, formatted for the log."""
    lengths = [sum(map(len, side.encode(lines))) / max(1, len(lines)) for side in (before, after)]
    return f"{lengths[0]:.2f} → {lengths[1]:.2f}"
