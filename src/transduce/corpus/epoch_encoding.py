"""A token store that re-encodes its sentences for every epoch, with subword dropout, noise or both.

Re-encoding changes the lengths of sentences, so a whole epoch is encoded before it is planned. Its tokens are stored in
unnamed temporary files, which are deleted after the epoch. A sentence that would become longer than the longest
sentence in the store keeps its original encoding, so that settings that fit in memory without dropout and noise also
fit with them.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.corpus.noise import Noise
from transduce.corpus.store.token_store import (
    FILES,
    SIDES,
    CorpusPart,
    PackedSentences,
    Side,
    TokenStore,
    TokenStoreWriter,
)
from transduce.text.bpe_dropout import hash_numbers
from transduce.text.token_vocabulary import TokenVocabulary, tags_of

BATCH = 2_000
"""The number of pairs that are encoded at a time."""

Tokens = NDArray[Any]


class EpochWriteError(OSError):
    """Raised if the sentences of an epoch cannot be written to disk."""


class Reencoding(NamedTuple):
    """How sentences are re-encoded: the subwords of both sides, the probability of dropping a merge, and the noise."""

    source: TokenVocabulary
    target: TokenVocabulary
    dropout: float
    noise: Noise | None


class ReencodedStore(TokenStore):
    """A token store that re-encodes its sentences for every epoch.

    The encoding of a sentence depends only on the seed, the epoch and the index of the sentence.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        dtype: np.dtype[Any],
        parts: Sequence[CorpusPart],
        max_length: int | None,
        reencoding: Reencoding,
    ) -> None:
        super().__init__(files, dtype, parts, max_length, (reencoding.source.size, reencoding.target.size))
        self._directory = files[FILES[0]].parent
        self._subwords: dict[Side, TokenVocabulary] = {"source": reencoding.source, "target": reencoding.target}
        self._tags = frozenset(tags_of(reencoding.source).values())
        self._dropout, self._noise = reencoding.dropout, reencoding.noise
        self._latest: tuple[tuple[int, int], TokenStore] | None = None

    def in_epoch(self, seed: int, epoch: int) -> TokenStore:
        """Returns the store with its sentences encoded for an epoch. The most recent epoch is cached.

        Raises EpochWriteError if the sentences cannot be written to disk.
        """
        if self._latest is None or self._latest[0] != (seed, epoch):
            self._latest = None  # frees its files first, because the disk may have space for only one epoch
            try:
                self._latest = (seed, epoch), self._encode_epoch(seed, epoch)
            except OSError as error:
                raise EpochWriteError(error.errno, error.strerror, str(self._directory)) from None
        return self._latest[1]

    def _encode_epoch(self, seed: int, epoch: int) -> TokenStore:
        """Encodes all sentences for an epoch, writes them to temporary files, and opens these files as a store."""
        with ExitStack() as stack:
            files = {name: stack.enter_context(TemporaryFile(dir=self._directory)) for name in FILES}
            writer = TokenStoreWriter(files, self.dtype)
            for start in range(0, len(self), BATCH):
                numbers = np.arange(start, min(start + BATCH, len(self)))
                pairs = {side: [self.sentence(side, number) for number in numbers.tolist()] for side in SIDES}
                if self._noise is not None:
                    self._add_noise(pairs, self._noise, _keys(seed, epoch, len(SIDES), numbers))
                for index, side in enumerate(SIDES):
                    sentences = pairs[side]
                    if self._dropout:
                        sentences = self._encode_with_dropout(side, sentences, _keys(seed, epoch, index, numbers))
                    writer.append(side, PackedSentences.of(sentences, self.dtype))
            for file in files.values():
                file.flush()
            return TokenStore(files, self.dtype, self.parts)

    def _add_noise(self, pairs: Mapping[Side, list[Tokens]], noise: Noise, keys: NDArray[np.uint64]) -> None:
        """Replaces each pair for which noise was drawn with its noisy version.

        The tags before a source do not change. A pair that would become too long keeps its original encoding.
        """
        drawn = noise.draw(keys)
        rows = drawn.rows
        fronts = [_count_tags(pairs["source"][row], self._tags) for row in rows]
        sources = self._subwords["source"].decode(
            [pairs["source"][row][front:] for row, front in zip(rows, fronts, strict=True)]
        )
        targets = self._subwords["target"].decode([pairs["target"][row] for row in rows])
        noisy = [
            drawn.apply(row, pair, int(keys[row]))
            for row, pair in zip(rows, zip(sources, targets, strict=True), strict=True)
        ]
        encoded = zip(
            self._subwords["source"].encode([source for source, _ in noisy]),
            self._subwords["target"].encode([target for _, target in noisy]),
            strict=True,
        )
        for row, front, (source, target) in zip(rows, fronts, encoded, strict=True):
            if max(front + len(source), len(target)) <= self.max_length:
                pairs["source"][row] = np.concatenate([pairs["source"][row][:front], source]).astype(np.int64)
                pairs["target"][row] = np.array(target, np.int64)

    def _encode_with_dropout(self, side: Side, sentences: list[Tokens], keys: NDArray[np.uint64]) -> list[Tokens]:
        """Re-encodes the sentences of one side with subword dropout.

        Tags do not change; only the text between them is encoded again. A sentence that would become too long keeps its
        original encoding.
        """
        subwords = self._subwords[side]
        tags = self._tags if side == "source" else frozenset()
        parts = [_split_at_tags(sentence, tags) if tags else [sentence] for sentence in sentences]
        texts = [[part for part in sentence if part[0] not in tags] for sentence in parts]
        counts = list(map(len, texts))
        # The key of the first text in a sentence is the key of the sentence.
        keys_of_texts = np.repeat(keys, counts) ^ np.concatenate(
            [np.arange(count, dtype=np.uint64) for count in counts]
        )
        lines = subwords.decode(list(chain.from_iterable(texts)))
        encoded = iter(subwords.encode_with_dropout(lines, self._dropout, keys_of_texts))
        with_dropout = [
            np.concatenate([part if part[0] in tags else next(encoded) for part in sentence]).astype(np.int64)
            for sentence in parts
        ]
        return [new if len(new) <= self.max_length else old for old, new in zip(sentences, with_dropout, strict=True)]


def _count_tags(sentence: Tokens, tags: Collection[int]) -> int:
    front = 0
    while front < len(sentence) and int(sentence[front]) in tags:
        front += 1
    return front


def _split_at_tags(sentence: Tokens, tags: Collection[int]) -> list[Tokens]:
    """Splits a sentence into its tags, each as a separate part, and the text before, between and after them."""
    is_tag = np.isin(sentence, list(tags))
    return np.split(sentence, np.flatnonzero(is_tag[1:] | is_tag[:-1]) + 1)


def _keys(seed: int, epoch: int, side: int, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Returns a pseudorandom key for each sentence or pair with an index in `numbers`.

    The keys are derived from `seed`, `epoch`, `side` and the index. `side` is the index of a side for keys of
    sentences, or 2 for keys of pairs.
    """
    key = hash_numbers(np.array([seed]))
    for part in (epoch, side):
        key = hash_numbers(key ^ np.uint64(part))
    return hash_numbers(key ^ numbers.astype(np.uint64))
