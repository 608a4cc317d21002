"""The sentences of a store: both sides of every pair as ids, mapped into memory and never read whole.

For each side there are `ids`, all sentences one after the other, and `offsets`, where each begins and the last
ends.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["SIDES", "Part", "Side", "Store", "StoreWriter"]

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")


class Part(NamedTuple):
    """A run of pairs that came from one corpus of the recipe, and how often an epoch uses them."""

    pairs: int
    weight: float


class Store:
    """Pairs of sentences as ids, by number, on disk."""

    def __init__(self, directory: Path, dtype: np.dtype[Any], parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._ids = {side: _mapped(directory / f"{side}.ids", dtype) for side in SIDES}
        self._offsets = {side: _mapped(directory / f"{side}.offsets", np.dtype("<i8")) for side in SIDES}

    def __len__(self) -> int:
        return sum(part.pairs for part in self.parts)

    def source(self, number: int) -> NDArray[np.integer[Any]]:
        """The ids of one source sentence, no symbols added."""
        return self._sentence("source", number)

    def target(self, number: int) -> NDArray[np.integer[Any]]:
        """The ids of one target sentence, no symbols added."""
        return self._sentence("target", number)

    @cached_property
    def source_lengths(self) -> NDArray[np.int32]:
        """Ids in each source sentence."""
        return np.diff(self._offsets["source"]).astype(np.int32)

    @cached_property
    def target_lengths(self) -> NDArray[np.int32]:
        """Ids in each target sentence."""
        return np.diff(self._offsets["target"]).astype(np.int32)

    def padded(self, side: Side, numbers: NDArray[np.int64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sentences `numbers` as rows of `room` places, 0 behind their ends, and their lengths."""
        offsets = self._offsets[side]
        starts, lengths = offsets[numbers], offsets[numbers + 1] - offsets[numbers]
        places = np.arange(room)
        inside = places < lengths[:, None]
        rows = np.zeros((len(numbers), room), np.int64)
        rows[inside] = self._ids[side][(starts[:, None] + places)[inside]]
        return rows, lengths

    def _sentence(self, side: Side, number: int) -> NDArray[np.integer[Any]]:
        start, stop = self._offsets[side][number : number + 2]
        return self._ids[side][start:stop]


class StoreWriter:
    """Writes the files of a `Store`, a batch at a time."""

    def __init__(self, directory: Path, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._ids = {side: (directory / f"{side}.ids").open("wb") for side in SIDES}
        self._offsets = {side: (directory / f"{side}.offsets").open("wb") for side in SIDES}
        self._ends = dict.fromkeys(SIDES, 0)
        for file in self._offsets.values():
            file.write(np.zeros(1, "<i8").tobytes())

    def append(self, side: Side, sentences: Sequence[Sequence[int]]) -> None:
        """Adds `sentences` to one side."""
        ends = self._ends[side] + np.cumsum([len(sentence) for sentence in sentences], dtype="<i8")
        self._ids[side].write(np.fromiter(chain.from_iterable(sentences), self.dtype).tobytes())
        self._offsets[side].write(ends.tobytes())
        self._ends[side] = int(ends[-1]) if len(ends) else self._ends[side]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in chain(self._ids.values(), self._offsets.values()):
            file.close()


def _mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.memmap(path, dtype, mode="r")
