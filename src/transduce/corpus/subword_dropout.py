"""Subword dropout: a store whose sentences are encoded anew for every epoch.

Lengths change with the encoding, so an epoch is encoded whole before it is planned, into unnamed files that are freed
with the epoch. A sentence that would become longer than the longest of the store keeps its encoding without dropout,
so that the same settings fit with and without dropout.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
"""Sentences encoded at a time."""


class EpochWriteError(OSError):
    """The disk refuses the sentences of an epoch."""


class SubwordDropout(NamedTuple):
    """The subwords of both sides, and the probability that a merge is dropped."""

    source: TokenVocabulary
    target: TokenVocabulary
    probability: float


class SubwordDropoutStore(TokenStore):
    """A store that encodes its sentences anew for every epoch, as a function of seed, epoch and sentence."""

    def __init__(
        self,
        files: Mapping[str, Path],
        dtype: np.dtype[Any],
        parts: Sequence[CorpusPart],
        max_length: int | None,
        dropout: SubwordDropout,
    ) -> None:
        super().__init__(files, dtype, parts, max_length, (dropout.source.size, dropout.target.size))
        self._directory = files[FILES[0]].parent
        self._dropout = dropout
        self._latest: tuple[tuple[int, int], TokenStore] | None = None

    def in_epoch(self, seed: int, epoch: int) -> TokenStore:
        """Returns the store as encoded in an epoch; the latest one is cached. Raises EpochWriteError."""
        if self._latest is None or self._latest[0] != (seed, epoch):
            self._latest = None  # frees its files first: the disk may have space for one epoch only
            try:
                self._latest = (seed, epoch), self._encode_epoch(seed, epoch)
            except OSError as error:
                raise EpochWriteError(error.errno, error.strerror, str(self._directory)) from None
        return self._latest[1]

    def _encode_epoch(self, seed: int, epoch: int) -> TokenStore:
        """Writes all sentences, encoded with dropout, to temporary files, and opens these."""
        with ExitStack() as stack:
            files = {name: stack.enter_context(TemporaryFile(dir=self._directory)) for name in FILES}
            writer = TokenStoreWriter(files, self.dtype)
            for side in SIDES:
                for start in range(0, len(self), BATCH):
                    numbers = np.arange(start, min(start + BATCH, len(self)))
                    sentences = self._encode(side, numbers, _keys(seed, epoch, side, numbers))
                    writer.append(side, PackedSentences.of(sentences, self.dtype))
            for file in files.values():
                file.flush()
            return TokenStore(files, self.dtype, self.parts)

    def _encode(self, side: Side, numbers: NDArray[np.int64], keys: NDArray[np.uint64]) -> list[NDArray[Any]]:
        """Encodes the sentences `numbers` of one side with dropout."""
        subwords = self._dropout.source if side == "source" else self._dropout.target
        without_dropout = [self.sentence(side, number) for number in numbers.tolist()]
        tags = frozenset(tags_of(subwords).values()) if side == "source" else frozenset()
        # Tags stay; the text before, between and after them is encoded anew.
        parts = [_split_at_tags(sentence, tags) if tags else [sentence] for sentence in without_dropout]
        texts = [[part for part in sentence if part[0] not in tags] for sentence in parts]
        counts = list(map(len, texts))
        # The first text has the key of the sentence.
        keys_of_texts = np.repeat(keys, counts) ^ np.concatenate(
            [np.arange(count, dtype=np.uint64) for count in counts]
        )
        lines = subwords.decode(list(chain.from_iterable(texts)))
        encoded = iter(subwords.encode_with_dropout(lines, self._dropout.probability, keys_of_texts))
        with_dropout = [
            np.concatenate([part if part[0] in tags else next(encoded) for part in sentence]).astype(np.int64)
            for sentence in parts
        ]
        return [
            new if len(new) <= self.max_length else old for old, new in zip(without_dropout, with_dropout, strict=True)
        ]


def _split_at_tags(sentence: NDArray[Any], tags: Collection[int]) -> list[NDArray[Any]]:
    """Returns the tags of a sentence, each by itself, and the text before, between and after them."""
    is_tag = np.isin(sentence, list(tags))
    return np.split(sentence, np.flatnonzero(is_tag[1:] | is_tag[:-1]) + 1)


def _keys(seed: int, epoch: int, side: Side, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Returns a random key for each sentence."""
    key = hash_numbers(np.array([seed]))
    for part in (epoch, SIDES.index(side)):
        key = hash_numbers(key ^ np.uint64(part))
    return hash_numbers(key ^ numbers.astype(np.uint64))
