"""What a layer knows of the tokens before the new ones, in a search: caches by sentence, slot by slot."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from transduce.model.hypothesis_rows import HypothesisRows

Slots = Bool[Tensor, "batch target slots"]


class KeyValueCache:
    """What is kept of the tokens written so far, such as keys and values: one slot a token, by sentence.

    Appended in place, never reordered. Which slots belong to a hypothesis is a mask that the decoder's state carries
    (`state.CachedState.ancestors`): reordering a beam then moves a few bits and not the cache. What belongs to none
    is thrown out now and then, as memory is by a collector.
    """

    def __init__(self, buffers: tuple[Tensor, ...] = (), used: int = 0) -> None:
        self._buffers, self.used = buffers, used

    def extend(self, *new: Float[Tensor, "batch heads new _"]) -> tuple[Float[Tensor, "batch heads slots _"], ...]:
        """Appends new slots to each buffer; gives all that are in use, as views."""
        start, self.used = self.used, self.used + new[0].shape[2]
        buffers = self._buffers or (None,) * len(new)
        self._buffers = tuple(_written(buffer, more, start) for buffer, more in zip(buffers, new, strict=True))
        return tuple(buffer[:, :, : self.used] for buffer in self._buffers)

    def keep(self, sentences: Int[Tensor, " kept"], slots: Int[Tensor, "kept slots"]) -> "KeyValueCache":
        """The cache of the chosen sentences alone, and of each the chosen slots alone."""
        return KeyValueCache(tuple(_chosen(buffer, sentences, slots) for buffer in self._buffers), slots.shape[1])


class DecodingContext(NamedTuple):
    """What a decoder layer knows of the tokens before the new ones, in a search."""

    cache: KeyValueCache
    visible: Slots  # which slots, old and new, each new token may look at
    rows: HypothesisRows


def capacity_for(slots: int) -> int:
    """Slots to hold where so many are needed: twice that, since more will follow."""
    return max(2 * slots, 32)


def _chosen(buffer: Tensor, sentences: Tensor, slots: Tensor) -> Tensor:
    """[kept heads room _], `slots` first, of [batch heads room _]: one pass over what is kept."""
    heads, room = buffer.shape[1:3]
    slots = functional.pad(slots, (0, capacity_for(slots.shape[1]) - slots.shape[1]))
    first = room * (heads * sentences.unsqueeze(1) + torch.arange(heads, device=buffer.device))
    places = first.unsqueeze(2) + slots.unsqueeze(1)
    return buffer.flatten(0, 2).index_select(0, places.flatten()).unflatten(0, places.shape)


def _written(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """`buffer` with `new` at slot `start`; grown where it is too short."""
    end = start + new.shape[2]
    if buffer is None or buffer.shape[2] < end:
        grown = new.new_empty(*new.shape[:2], capacity_for(end), new.shape[3])
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:end] = new
    return buffer
