"""What a layer knows of the words before the new ones, in a search: caches by sentence, slot by slot."""

from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from transduce.model.rows import Rows

Slots = Bool[Tensor, "batch target slots"]


class Cache:
    """What is kept of the words written so far, such as keys and values: one slot a word, by sentence.

    Appended in place, never reordered. Which slots belong to a hypothesis is a mask that the decoder's state carries
    (`transformer.State.ancestors`): reordering a beam then moves a few bits and not the cache.
    """

    def __init__(self, buffers: tuple[Tensor, ...] = (), used: int = 0) -> None:
        self._buffers, self.used = buffers, used

    def extend(self, *new: Float[Tensor, "batch heads new _"]) -> tuple[Float[Tensor, "batch heads slots _"], ...]:
        """Appends new slots to each buffer; gives all that are in use, as views."""
        start, self.used = self.used, self.used + new[0].shape[2]
        buffers = self._buffers or (None,) * len(new)
        self._buffers = tuple(_written(buffer, more, start) for buffer, more in zip(buffers, new, strict=True))
        return tuple(buffer[:, :, : self.used] for buffer in self._buffers)

    def keep(self, sentences: Tensor) -> "Cache":
        """The cache of the chosen sentences alone."""
        return Cache(tuple(buffer.index_select(0, sentences) for buffer in self._buffers), self.used)


class Past(NamedTuple):
    """What a decoder layer knows of the words before the new ones, in a search."""

    cache: Cache
    visible: Slots  # which slots, old and new, each new word may look at
    rows: Rows


def _written(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """`buffer` with `new` at slot `start`; grown to twice its need where it is too short."""
    end = start + new.shape[2]
    if buffer is None or buffer.shape[2] < end:
        grown = new.new_empty(*new.shape[:2], max(2 * end, 32), new.shape[3])
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:end] = new
    return buffer
