"""Subword dropout: a store whose sentences are cut anew for every epoch.

Lengths change with the cut, so an epoch is cut whole, before it is planned, into files without a name that are gone
when the epoch is. A sentence that would become longer than the longest of the store keeps its plain cut, so that
what fits in training without dropout fits with it.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transduce.corpus.token_store import FILES, SIDES, CorpusPart, PackedSentences, Side, TokenStore, TokenStoreWriter
from transduce.text.bpe_dropout import hash_numbers
from transduce.text.subwords import Subwords

__all__ = ["SubwordDropout", "SubwordDropoutStore"]

BATCH = 2_000
"""Sentences that are cut at a time."""


class SubwordDropout(NamedTuple):
    """What cuts the two sides, and the share of merges that it leaves out."""

    source: Subwords
    target: Subwords
    probability: float


class SubwordDropoutStore(TokenStore):
    """A store that gives every epoch another cut of its sentences: a function of seed, epoch and sentence."""

    def __init__(
        self,
        files: Mapping[str, Path],
        dtype: np.dtype[Any],
        parts: Sequence[CorpusPart],
        longest: int | None,
        dropout: SubwordDropout,
    ) -> None:
        super().__init__(files, dtype, parts, longest)
        self._directory = files[FILES[0]].parent
        self._dropout = dropout
        self._latest: tuple[tuple[int, int], TokenStore] | None = None

    def in_epoch(self, seed: int, epoch: int) -> TokenStore:
        """The store as it is cut in an epoch; the latest is kept."""
        if self._latest is None or self._latest[0] != (seed, epoch):
            self._latest = None  # its files take room on the disk, and there may be room for one
            self._latest = (seed, epoch), self._cut(seed, epoch)
        return self._latest[1]

    def _cut(self, seed: int, epoch: int) -> TokenStore:
        with ExitStack() as stack:
            files = {name: stack.enter_context(TemporaryFile(dir=self._directory)) for name in FILES}
            writer = TokenStoreWriter(files, self.dtype)
            for side in SIDES:
                for start in range(0, len(self), BATCH):
                    numbers = np.arange(start, min(start + BATCH, len(self)))
                    sentences = self._sentences(side, numbers, _keys(seed, epoch, side, numbers))
                    writer.append(side, PackedSentences.of(sentences, self.dtype))
            for file in files.values():
                file.flush()
            return TokenStore(files, self.dtype, self.parts)

    def _sentences(self, side: Side, numbers: NDArray[np.int64], keys: NDArray[np.uint64]) -> list[NDArray[Any]]:
        """Some sentences of one side, cut with dropout."""
        subwords = self._dropout.source if side == "source" else self._dropout.target
        plain = [self.sentence(side, number) for number in numbers.tolist()]
        cut = subwords.encode_with_dropout(subwords.decode(plain), self._dropout.probability, keys)
        return [new if len(new) <= self.longest else old for old, new in zip(plain, cut)]


def _keys(seed: int, epoch: int, side: Side, numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A key for each sentence."""
    key = hash_numbers(np.array([seed]))
    for part in (epoch, SIDES.index(side)):
        key = hash_numbers(key ^ np.uint64(part))
    return hash_numbers(key ^ numbers.astype(np.uint64))
