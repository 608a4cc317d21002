"""The sentences of a store: both sides of every pair as ids, mapped into memory and never read whole.

For each side there are `ids`, all sentences one after the other, and `offsets`, where each begins and the last
ends.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILES", "SIDES", "CorpusPart", "PackedSentences", "Side", "TokenStore", "TokenStoreWriter"]

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
FILES = ("source.ids", "source.offsets", "target.ids", "target.offsets")

OFFSET = np.dtype("<i8")


class CorpusPart(NamedTuple):
    """A run of pairs that came from one corpus of the recipe, and how often an epoch uses them."""

    pairs: int
    weight: float


class PackedSentences(NamedTuple):
    """Sentences of one side: the length of each, and the ids of all, one after the other."""

    lengths: NDArray[np.int64]
    ids: NDArray[Any]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int] | NDArray[Any]], dtype: np.dtype[Any]) -> "PackedSentences":
        """The sentences given, as ids of a type."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        return cls(lengths, np.fromiter(chain.from_iterable(sentences), dtype, lengths.sum()))


class TokenStore:
    """Pairs of sentences as ids, by number, on disk."""

    def __init__(
        self,
        files: Mapping[str, Path | BinaryIO],
        dtype: np.dtype[Any],
        parts: Sequence[CorpusPart],
        longest: int | None = None,
    ) -> None:
        """Maps `files`, which `TokenStoreWriter` wrote, one for each of `FILES`; they may be deleted then.

        `longest` are the ids of the longest sentence, where they are known.
        """
        self.dtype = dtype
        self.parts = tuple(parts)
        self._longest = longest
        self._ids = {side: np.memmap(files[f"{side}.ids"], dtype, mode="r") for side in SIDES}
        self._offsets = {side: np.memmap(files[f"{side}.offsets"], OFFSET, mode="r") for side in SIDES}

    def __len__(self) -> int:
        return sum(part.pairs for part in self.parts)

    def source(self, number: int) -> NDArray[np.integer[Any]]:
        """The ids of one source sentence, no symbols added."""
        return self.sentence("source", number)

    def target(self, number: int) -> NDArray[np.integer[Any]]:
        """The ids of one target sentence, no symbols added."""
        return self.sentence("target", number)

    def sentence(self, side: Side, number: int) -> NDArray[np.integer[Any]]:
        """The ids of one sentence, no symbols added."""
        start, stop = self._offsets[side][number : number + 2]
        return self._ids[side][start:stop]

    def lengths(self, side: Side, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ids in each of some sentences of one side."""
        offsets = self._offsets[side]
        found: NDArray[np.int64] = offsets[numbers + 1] - offsets[numbers]
        return found

    @cached_property
    def source_lengths(self) -> NDArray[np.int32]:
        """Ids in each source sentence."""
        return np.diff(self._offsets["source"]).astype(np.int32)

    @cached_property
    def target_lengths(self) -> NDArray[np.int32]:
        """Ids in each target sentence."""
        return np.diff(self._offsets["target"]).astype(np.int32)

    @cached_property
    def longest(self) -> int:
        """Ids of the longest sentence of either side."""
        if self._longest is not None:
            return self._longest
        return int(max(self.source_lengths.max(), self.target_lengths.max()))

    def padded(self, side: Side, numbers: NDArray[np.int64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sentences `numbers` as rows of `room` places, 0 behind their ends, and their lengths."""
        offsets = self._offsets[side]
        starts, lengths = offsets[numbers], offsets[numbers + 1] - offsets[numbers]
        places = np.arange(room)
        inside = places < lengths[:, None]
        rows = np.zeros((len(numbers), room), np.int64)
        rows[inside] = self._ids[side][(starts[:, None] + places)[inside]]
        return rows, lengths

    def in_epoch(self, seed: int, epoch: int) -> "TokenStore":
        """The sentences as they are in an epoch: here always the same."""
        return self


class TokenStoreWriter:
    """Fills the files of a `TokenStore`, a batch at a time, from where they end."""

    def __init__(self, files: Mapping[str, BinaryIO], dtype: np.dtype[Any]) -> None:
        self._files = files
        self._ends = {side: files[f"{side}.ids"].tell() // dtype.itemsize for side in SIDES}
        for side in SIDES:
            if not files[f"{side}.offsets"].tell():
                files[f"{side}.offsets"].write(np.zeros(1, OFFSET).tobytes())

    def append(self, side: Side, sentences: PackedSentences) -> None:
        """Adds `sentences` to one side."""
        ends = self._ends[side] + np.cumsum(sentences.lengths, dtype=OFFSET)
        self._files[f"{side}.ids"].write(sentences.ids.tobytes())
        self._files[f"{side}.offsets"].write(ends.tobytes())
        self._ends[side] = int(ends[-1]) if len(ends) else self._ends[side]
