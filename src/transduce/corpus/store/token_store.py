"""The token store: both sides of every pair as tokens, in files that are mapped into memory instead of read as a whole.

Each side has two files. `ids` contains the tokens of all sentences without gaps. `offsets` contains the offset of the
first token of each sentence, and finally the total number of tokens.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from transduce.corpus.corpus_kinds import MAX_WEIGHT
from transduce.text.byte_level import END

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
FILES = ("source.ids", "source.offsets", "target.ids", "target.offsets")

OFFSET = np.dtype("<i8")

REMEDY = "delete the folder `training/store`, and give the command again"

CHECKED = 1 << 20
"""The number of sentences or tokens that are checked at a time."""

Count = Annotated[int, Field(ge=0)]


class CorpusPart(NamedTuple):
    """Consecutive pairs from one corpus of the recipe, and the number of times that an epoch uses each of them."""

    pairs: Count
    weight: Annotated[float, Field(gt=0.0, le=MAX_WEIGHT)]


class PackedSentences(NamedTuple):
    """The sentences of one side: the length of each sentence, and the concatenated tokens of all sentences."""

    lengths: NDArray[np.int64]
    ids: NDArray[Any]

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int] | NDArray[Any]], dtype: np.dtype[Any]) -> "PackedSentences":
        """Packs sentences, storing their tokens with the given `dtype`."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        return cls(lengths, np.fromiter(chain.from_iterable(sentences), dtype, lengths.sum()))


class TokenStore:
    """Sentence pairs as tokens, which are read by index from memory-mapped files."""

    def __init__(
        self,
        files: Mapping[str, Path | BinaryIO],
        dtype: np.dtype[Any],
        parts: Sequence[CorpusPart],
        max_length: int | None = None,
        sizes: tuple[int, int] | None = None,
    ) -> None:
        """Maps `files`, one for each name in `FILES`, which a `TokenStoreWriter` wrote.

        The files may be deleted after they are mapped. `max_length` is the number of tokens in the longest sentence. If
        it is None, the lengths of all sentences are read when it is first needed. `sizes` are the sizes of the source
        and target vocabularies. If they are None, `padded` does not check whether tokens are in the vocabulary.
        """
        self.dtype = dtype
        self.parts = tuple(parts)
        self._max_length = max_length
        self._sizes = dict(zip(SIDES, sizes or (np.iinfo(np.int64).max,) * 2, strict=True))
        self._ids = {side: np.memmap(files[f"{side}.ids"], dtype, mode="r") for side in SIDES}
        self._offsets = {side: np.memmap(files[f"{side}.offsets"], OFFSET, mode="r") for side in SIDES}

    def __len__(self) -> int:
        return sum(part.pairs for part in self.parts)

    def sentence(self, side: Side, number: int) -> NDArray[np.integer[Any]]:
        """Returns the tokens of the sentence with index `number`, without BOS and EOS."""
        start, stop = self._offsets[side][number : number + 2]
        return self._ids[side][start:stop]

    def lengths(self, side: Side, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the number of tokens in each of the sentences with the indices `numbers`."""
        offsets = self._offsets[side]
        lengths: NDArray[np.int64] = offsets[numbers + 1] - offsets[numbers]
        return lengths

    @cached_property
    def source_lengths(self) -> NDArray[np.int32]:
        """The number of tokens in each source sentence."""
        return np.diff(self._offsets["source"]).astype(np.int32)

    @cached_property
    def target_lengths(self) -> NDArray[np.int32]:
        """The number of tokens in each target sentence."""
        return np.diff(self._offsets["target"]).astype(np.int32)

    @cached_property
    def max_length(self) -> int:
        """The number of tokens in the longest sentence on either side."""
        if self._max_length is not None:
            return self._max_length
        return int(max(self.source_lengths.max(), self.target_lengths.max()))

    def padded(
        self, side: Side, numbers: NDArray[np.int64], length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the sentences with the indices `numbers` as rows of `length` tokens, and the length of each sentence.

        Shorter sentences are padded with 0, and longer ones are truncated, but the returned lengths are the original
        ones. Raises ValueError if the files do not contain these sentences, or if a token is not in the vocabulary.
        """
        starts, lengths = self._offsets[side][numbers], self.lengths(side, numbers)
        ends = starts + np.minimum(lengths, length)
        if np.any(lengths < 0) or np.any(starts < 0) or np.any(ends > len(self._ids[side])):
            raise ValueError(f"{side}.offsets of the store are no ends of sentences in {side}.ids: {REMEDY}")
        places = np.arange(length)
        inside = places < lengths[:, None]
        rows = np.zeros((len(numbers), length), np.int64)
        rows[inside] = self._ids[side][(starts[:, None] + places)[inside]]
        if rows.max(initial=0) >= self._sizes[side]:
            raise ValueError(f"{side}.ids of the store has a token that is not in its vocabulary: {REMEDY}")
        return rows, lengths

    def fault_of_ends(self) -> str | None:
        """Checks the first and the last offset of each side, without reading anything else.

        Returns a description of the fault if the first offset is not 0 or the last one is not the number of tokens, and
        None otherwise.
        """
        for side in SIDES:
            ends, count = self._offsets[side][[0, -1]].tolist(), len(self._ids[side])
            if ends != [0, count]:
                return f"{side}.offsets go from {ends[0]:,} to {ends[1]:,}, and {side}.ids has {count:,} tokens"
        return None

    def find_fault(self, sizes: Sequence[int]) -> str | None:
        """Reads the whole store and returns a description of the first fault, or None if there is none.

        `sizes` are the sizes of the source and target vocabularies.
        """
        for side, size in zip(SIDES, sizes, strict=True):
            offsets, ids = self._offsets[side], self._ids[side]
            for start in range(0, len(self), CHECKED):
                lengths = np.diff(offsets[start : start + CHECKED + 1])
                if lengths.min() < 0 or lengths.max() > self.max_length:
                    return f"{side}.offsets has a sentence of less than 0 or more than {self.max_length:,} tokens"
            for start in range(0, len(ids), CHECKED):
                tokens = ids[start : start + CHECKED]
                if tokens.min() <= END or tokens.max() >= size:
                    return f"{side}.ids has a token that is none of the {size:,} of its vocabulary"
        return None

    def in_epoch(self, seed: int, epoch: int) -> "TokenStore":
        """Returns the store with its sentences as they are encoded in an epoch.

        In this class, the encoding is the same in every epoch, so the store itself is returned.
        """
        return self


class TokenStoreWriter:
    """Appends batches of sentences to the files of a `TokenStore`."""

    def __init__(self, files: Mapping[str, BinaryIO], dtype: np.dtype[Any]) -> None:
        self._files = files
        self._ends = {side: files[f"{side}.ids"].tell() // dtype.itemsize for side in SIDES}
        for side in SIDES:
            if not files[f"{side}.offsets"].tell():
                files[f"{side}.offsets"].write(np.zeros(1, OFFSET).tobytes())

    def append(self, side: Side, sentences: PackedSentences) -> None:
        """Appends `sentences` to the files of one side."""
        ends = self._ends[side] + np.cumsum(sentences.lengths, dtype=OFFSET)
        self._files[f"{side}.ids"].write(sentences.ids.tobytes())
        self._files[f"{side}.offsets"].write(ends.tobytes())
        self._ends[side] = int(ends[-1]) if len(ends) else self._ends[side]
